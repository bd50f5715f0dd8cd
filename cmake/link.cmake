# SPDX-License-Identifier: MIT-0
# The file FROM also at TO: a second name, or a copy where the file system has none.
get_filename_component(folder "${TO}" DIRECTORY)
file(MAKE_DIRECTORY "${folder}")
file(CREATE_LINK "${FROM}" "${TO}" COPY_ON_ERROR)
