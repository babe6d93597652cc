# The Python package: the extension holds the library itself, the simulator lies beside it. Included by CMakeLists.txt for
# scikit-build-core (pyproject.toml), which adds the package's .py files.
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
file(GLOB _python_sources CONFIGURE_DEPENDS python/ext/*.c ${_made}/gen/py/*.c)
Python_add_library(_C MODULE WITH_SOABI ${_python_sources} ${_objects})
target_compile_options(_C PRIVATE ${FLAGS_COMMON} ${FLAGS_WARN} ${FLAGS_${FACULA_MODE}})
target_include_directories(_C PRIVATE include ${_made}/include ${_made}/gen src . python/ext)
# Without LINK_${FACULA_MODE}, which asks for every symbol: Python's are found in the process that loads the extension.
target_link_options(_C PRIVATE ${LINK_COMMON})
target_link_libraries(_C PRIVATE ${_libs})
# ... so that the linker can't tell which of the library's own are missing: loading it does.
if(NOT CMAKE_CROSSCOMPILING)
    add_custom_command(TARGET _C POST_BUILD COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=$<TARGET_FILE_DIR:_C>
                       ${Python_EXECUTABLE} -B -c "import _C" VERBATIM)
endif()

install(TARGETS _C facula_sim LIBRARY DESTINATION facula)
install(DIRECTORY ${_made}/gen/py/ DESTINATION facula FILES_MATCHING PATTERN "*.pyi")
install(FILES data/digits.csv.gz DESTINATION facula/data)
install(FILES python/facula.pth DESTINATION .)
