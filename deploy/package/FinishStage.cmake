# Runs within cpack, when the files of all components are in their staging folders, and makes them fit Debian's policy:
# /usr/etc becomes /etc, and the changelog and the manual pages are compressed without a time stamp.
file(GLOB stages ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*)
foreach(stage ${stages})
  if(IS_DIRECTORY ${stage}/usr/etc)
    file(RENAME ${stage}/usr/etc ${stage}/etc)
  endif()
  file(GLOB_RECURSE texts ${stage}/usr/share/man/*.[0-9] ${stage}/usr/share/doc/*/changelog)
  if(texts)
    execute_process(COMMAND gzip -9nf ${texts} COMMAND_ERROR_IS_FATAL ANY)
  endif()
endforeach()
