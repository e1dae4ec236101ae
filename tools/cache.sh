# shellcheck shell=bash
# Sourced by the scripts that keep what is slow to make outside the tree, in $WINDOWS_STORAGE_CACHE (else the user's
# cache directory). Sets `cache`.
cache=${WINDOWS_STORAGE_CACHE:-${XDG_CACHE_HOME:-${HOME:?neither HOME nor WINDOWS_STORAGE_CACHE is set}/.cache}/windows-storage-operator}

say() { echo "tools/${0##*tools/}: $*" >&2; }
die() { say "$@"; exit 1; }
need() { command -v "$1" >/dev/null || die "$2 needs '$1', which is not on PATH"; }

# Names the disks that have no room for a build.
full() {
    df -Pm "$cache" "${TMPDIR:-/tmp}" "$(go env GOCACHE)" 2>/dev/null | awk 'NR > 1 && $4 < 1000 && !seen[$6]++ {
        printf "; the disk at %s has %d MB left: make room, or set WINDOWS_STORAGE_CACHE, TMPDIR and GOCACHE to folders elsewhere", $6, $4
    }'
}

# publish DIR LABEL ABOUT COMMAND...: unless DIR is there, runs COMMAND with a new directory as its last argument, and
# renames that to DIR when it is complete. Of two at once, one waits for the other.
publish() {
    local dir=$1 label=$2 about=$3 lock
    shift 3
    [ ! -d "$dir" ] || return 0
    mkdir -p "$cache/parts"
    exec {lock}>"$cache/parts/.$label.lock"
    flock -w 2 "$lock" || { say "waiting for another build of $label"; flock "$lock"; }
    if [ ! -d "$dir" ]; then
        say "${PART_OF:-}building $label ($about)"
        rm -rf "$cache/parts/.new.$label."*
        new=$(mktemp -d "$cache/parts/.new.$label.XXXXXX")
        trap 'rm -rf "$new"' EXIT
        SECONDS=0
        "$@" "$new" >&2 </dev/null || die "building $label failed$(full)"
        chmod 755 "$new"
        mv -T "$new" "$dir"
        say "${PART_OF:-}built $label in $SECONDS s"
    fi
    exec {lock}>&-
}
