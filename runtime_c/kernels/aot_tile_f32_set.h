/* SPDX-License-Identifier: MIT-0 */
/* All register tiles, with AOT_TILE_RUNS 0, 1 or 2: see aot_tile_f32.h, which includes it once for
 * each. Not a header to include elsewhere. */

#define AOT_TILE_O 1
#define AOT_TILE_P 1
#include "aot_tile_f32_body.h"
#define AOT_TILE_P 2
#include "aot_tile_f32_body.h"
#define AOT_TILE_P 3
#include "aot_tile_f32_body.h"
#define AOT_TILE_P 4
#include "aot_tile_f32_body.h"
#define AOT_TILE_P 6
#include "aot_tile_f32_body.h"
#define AOT_TILE_P 7
#include "aot_tile_f32_body.h"
#define AOT_TILE_P 14
#include "aot_tile_f32_body.h"
#undef AOT_TILE_O
#define AOT_TILE_O 2
#define AOT_TILE_P 1
#include "aot_tile_f32_body.h"
#define AOT_TILE_P 2
#include "aot_tile_f32_body.h"
#define AOT_TILE_P 3
#include "aot_tile_f32_body.h"
#define AOT_TILE_P 4
#include "aot_tile_f32_body.h"
#define AOT_TILE_P 6
#include "aot_tile_f32_body.h"
#define AOT_TILE_P 7
#include "aot_tile_f32_body.h"
#define AOT_TILE_P 14
#include "aot_tile_f32_body.h"
#undef AOT_TILE_O
#define AOT_TILE_O 4
#define AOT_TILE_P 1
#include "aot_tile_f32_body.h"
#define AOT_TILE_P 2
#include "aot_tile_f32_body.h"
#define AOT_TILE_P 3
#include "aot_tile_f32_body.h"
#define AOT_TILE_P 4
#include "aot_tile_f32_body.h"
#define AOT_TILE_P 6
#include "aot_tile_f32_body.h"
#undef AOT_TILE_O
#undef AOT_TILE_RUNS
