# SPDX-License-Identifier: MIT-0
# cmake -DNAME=net -DOWNER=net -DINPUT=net_weights.bin -DOUTPUT=net_weights.c -P bin2c.cmake
# Writes the bytes of INPUT as the C array NAME_weights, in the linker section SECTION if it is given: for toolchains without .incbin.
file(SIZE "${INPUT}" size)
set(placed)
if(SECTION)
  set(placed "AOT_SECTION(\"${SECTION}\") ")
endif()
file(WRITE "${OUTPUT}.tmp" "/* SPDX-License-Identifier: MIT-0 */
#include \"${OWNER}_internal.h\"
${placed}AOT_ALIGNED(64) const unsigned char ${NAME}_weights[${size}] = {
")
set(chunk 65536)
set(at 0)
while(at LESS size)
  file(READ "${INPUT}" hex OFFSET ${at} LIMIT ${chunk} HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  file(APPEND "${OUTPUT}.tmp" "${hex}\n")
  math(EXPR at "${at} + ${chunk}")
endwhile()
file(APPEND "${OUTPUT}.tmp" "};\n")
file(RENAME "${OUTPUT}.tmp" "${OUTPUT}")
