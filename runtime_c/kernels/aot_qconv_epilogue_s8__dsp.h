/* SPDX-License-Identifier: MIT-0 */
/* Convolution and epilogue for Cortex-M4, M7 and M33: see aot_qconv_epilogue.h and
 * aot_qconv_s8__dsp.h. */
#ifndef AOT_QCONV_EPILOGUE_S8__DSP_H
#define AOT_QCONV_EPILOGUE_S8__DSP_H

#include "aot_qconv_epilogue.h"
#include "aot_qconv_s8__dsp.h"

typedef aot_qconv_epilogue_params aot_qconv_epilogue_s8__dsp_params;

/* aot_qconv_epilogue_s8__dsp(y, x, w, bias, mult, shift, scratch, r, stage, p, EPILOGUE, constants)
 */
#define aot_qconv_epilogue_s8__dsp(...) AOT_QCONV_EPILOGUE(aot_qconv_s8__dsp, __VA_ARGS__)

#endif /* AOT_QCONV_EPILOGUE_S8__DSP_H */
