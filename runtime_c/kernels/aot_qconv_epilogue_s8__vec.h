/* SPDX-License-Identifier: MIT-0 */
/* Convolution and epilogue on vectors: see aot_qconv_epilogue.h and aot_qconv_s8__vec.h. */
#ifndef AOT_QCONV_EPILOGUE_S8__VEC_H
#define AOT_QCONV_EPILOGUE_S8__VEC_H

#include "aot_qconv_epilogue.h"
#include "aot_qconv_s8__vec.h"

typedef aot_qconv_epilogue_params aot_qconv_epilogue_s8__vec_params;

/* aot_qconv_epilogue_s8__vec(y, x, w, bias, mult, shift, scratch, r, stage, p, EPILOGUE, constants)
 */
#define aot_qconv_epilogue_s8__vec(...) AOT_QCONV_EPILOGUE(aot_qconv_s8__vec, __VA_ARGS__)

#endif /* AOT_QCONV_EPILOGUE_S8__VEC_H */
