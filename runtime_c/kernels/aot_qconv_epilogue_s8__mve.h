/* SPDX-License-Identifier: MIT-0 */
/* Convolution and epilogue for Arm's vector extension: see aot_qconv_epilogue.h and
 * aot_qconv_s8__mve.h. */
#ifndef AOT_QCONV_EPILOGUE_S8__MVE_H
#define AOT_QCONV_EPILOGUE_S8__MVE_H

#include "aot_qconv_epilogue.h"
#include "aot_qconv_s8__mve.h"

typedef aot_qconv_epilogue_params aot_qconv_epilogue_s8__mve_params;

/* aot_qconv_epilogue_s8__mve(y, x, w, bias, mult, shift, scratch, r, stage, p, EPILOGUE, constants)
 */
#define aot_qconv_epilogue_s8__mve(...) AOT_QCONV_EPILOGUE(aot_qconv_s8__mve, __VA_ARGS__)

#endif /* AOT_QCONV_EPILOGUE_S8__MVE_H */
