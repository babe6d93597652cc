/* After the last header of one type: its macros go, the next type may begin. */
#undef FA_SUFFIX
#undef REAL
#undef FA_F32
#undef FA_F64
#undef FA_I64
