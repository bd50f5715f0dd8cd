/* SPDX-License-Identifier: MIT-0 */
#include "../../../cmsis_nn_standin/Include/arm_nnfunctions.h"
