#!/bin/sh
# Runs for every login to sshd: SFTP natively, any other command under Wine. Its environment comes from sshd_config.

# The same as START in wine.rs for programs that are not started over SSH.
trap '' XFSZ
if [ -f "$TESTBED_HOST/disk-free" ]; then
    prlimit --pid $$ --fsize="$(cat "$TESTBED_HOST/disk-free"):"
fi

# With its path, as Windows' sshd starts it: for a bare name, Wine first starts another program to find it.
cmd='C:\windows\system32\cmd.exe'

case $SSH_ORIGINAL_COMMAND in
testbed-sftp)
    export LD_PRELOAD="$TESTBED_LOGIN_SO:$LD_PRELOAD"
    exec "$TESTBED_SFTP_SERVER"
    ;;
'')
    cd "$TESTBED_DRIVE_C" && exec wine "$cmd"
    ;;
*)
    cd "$TESTBED_DRIVE_C" && exec wine "$cmd" /c "$SSH_ORIGINAL_COMMAND"
    ;;
esac
