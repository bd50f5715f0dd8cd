# SPDX-License-Identifier: MIT-0
# find_package(aotc PATHS "<what `aotc --cmake-dir` prints>") brings aot_add_model.
include("${CMAKE_CURRENT_LIST_DIR}/AotModel.cmake")
