# shellcheck shell=bash
# Sourced, after tools/cache.sh, by scripts that download packages from this machine's apt mirrors. Sets `ID` and
# `VERSION_CODENAME` of this machine's Debian or Ubuntu.

# shellcheck source=/dev/null
. /etc/os-release
[ -n "${VERSION_CODENAME:-}" ] || die "/etc/os-release names no VERSION_CODENAME: is this Debian or Ubuntu?"

# Prints this machine's sources.list entries for its release, without other vendors and proposed updates.
sources() {
    local keyring options=''
    for keyring in "/usr/share/keyrings/$ID-archive-keyring".{gpg,pgp}; do
        [ ! -e "$keyring" ] || { options="[signed-by=$keyring] "; break; }
    done
    apt-get "$@" indextargets --format '$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' 'Created-By: Packages' |
        awk -F '|' -v id="$ID" -v release="$VERSION_CODENAME" -v options="$options" '
            tolower($1) == id && ($3 == release || $3 == release "-updates" || $3 == release "-security") {
                print "deb " options $2, $3, $4
            }' | sort -u
}

# Like sources. If this machine has no package lists, as in many containers, fetches them into a temporary directory.
sources_or_update() {
    local found dir
    found=$(sources)
    if [ -z "$found" ]; then
        say "this machine has no package lists; fetching them"
        dir=$(mktemp -d)
        trap 'rm -rf "$dir"' RETURN
        mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
        local apt=(-o "Dir::State::Lists=$dir/lists" -o "Dir::Cache=$dir/cache" -o Debug::NoLocking=1 -o APT::Sandbox::User= -qq)
        apt-get "${apt[@]}" update >&2 || return
        found=$(sources "${apt[@]}")
    fi
    [ -n "$found" ] || { say "apt of this machine has no source of $ID $VERSION_CODENAME"; return 1; }
    printf '%s\n' "$found"
}

