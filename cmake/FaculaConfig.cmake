# find_package(Facula) gives the targets Facula::facula (shared) and Facula::facula_static. It stands in
# <libdir>/cmake/Facula and finds everything from there, so that an installed tree may be moved.
get_filename_component(_facula_libdir "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
find_path(_facula_include facula.h PATHS "${_facula_libdir}/.." "${_facula_libdir}/../.." PATH_SUFFIXES include/facula
          NO_DEFAULT_PATH NO_CACHE)
if(NOT _facula_include OR NOT EXISTS "${_facula_libdir}/libfacula.so.0")
    set(Facula_FOUND FALSE)
    set(Facula_NOT_FOUND_MESSAGE "facula.h or libfacula.so.0 is missing around ${_facula_libdir}: install Facula again")
    return()
endif()

if(NOT TARGET Facula::facula)
    add_library(Facula::facula SHARED IMPORTED)
    set_target_properties(Facula::facula PROPERTIES IMPORTED_LOCATION "${_facula_libdir}/libfacula.so.0"
        IMPORTED_SONAME "libfacula.so.0" INTERFACE_INCLUDE_DIRECTORIES "${_facula_include}")
endif()
if(NOT TARGET Facula::facula_static AND EXISTS "${_facula_libdir}/libfacula.a")
    add_library(Facula::facula_static STATIC IMPORTED)
    set_target_properties(Facula::facula_static PROPERTIES IMPORTED_LOCATION "${_facula_libdir}/libfacula.a"
        INTERFACE_INCLUDE_DIRECTORIES "${_facula_include}" INTERFACE_LINK_LIBRARIES "z;dl;m;pthread")
endif()
