/* SPDX-License-Identifier: MIT-0 */
/* Convolution and epilogue in portable C: see aot_qconv_epilogue.h and aot_qconv_s8.h. */
#ifndef AOT_QCONV_EPILOGUE_S8_H
#define AOT_QCONV_EPILOGUE_S8_H

#include "aot_qconv_epilogue.h"
#include "aot_qconv_s8.h"

typedef aot_qconv_epilogue_params aot_qconv_epilogue_s8_params;

/* aot_qconv_epilogue_s8(y, x, w, bias, mult, shift, scratch, r, stage, p, EPILOGUE, constants) */
#define aot_qconv_epilogue_s8(...) AOT_QCONV_EPILOGUE(aot_qconv_s8, __VA_ARGS__)

#endif /* AOT_QCONV_EPILOGUE_S8_H */
