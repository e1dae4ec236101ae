# shellcheck shell=bash
# Sourced by the scripts that build images, after tools/cache.sh: the platforms, and buildah with a storage of its own.

machine=$(dpkg --print-architecture)

# The architectures of the image: those of PLATFORMS, else both, or for tests this machine's.
# shellcheck disable=SC2206 # a word each
case ${PLATFORMS:-$profile} in
release) architectures=(amd64 arm64) ;;
dev) architectures=("$machine") ;;
*) architectures=(${PLATFORMS//linux\//}) ;;
esac
for architecture in "${architectures[@]}"; do
    case $architecture in
    amd64 | arm64) ;;
    *) die "PLATFORMS is a list of amd64 and arm64, not '$PLATFORMS'" ;;
    esac
done

own_buildah() {
    buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"
}

# Without root there are files of other users in it.
remove_storage() {
    local remove=(rm -rf "$work/storage" "$work/run")
    [ "$(id -u)" -eq 0 ] || remove=(buildah unshare "${remove[@]}")
    "${remove[@]}"
}

policy=(--signature-policy tools/image/policy.json)

# base ARCHITECTURE ROOTFS: makes localhost/base-ARCHITECTURE of that tar.
base() {
    local container
    container=$(own_buildah from "${policy[@]}" scratch)
    own_buildah config --arch "$1" --os linux "$container"
    own_buildah add --quiet "$container" "$2" / >/dev/null
    own_buildah commit --quiet "${policy[@]}" --timestamp "$SOURCE_DATE_EPOCH" "$container" "localhost/base-$1" >/dev/null
}

# build ARCHITECTURE OPTION...: makes localhost/built-ARCHITECTURE on that base.
build() {
    own_buildah build --quiet "${policy[@]}" --isolation chroot --pull-never --timestamp "$SOURCE_DATE_EPOCH" \
        --platform "linux/$1" --build-arg "BASE=localhost/base-$1" --tag "localhost/built-$1" "${@:2}" >/dev/null
}

# archive NAME:TAG ARCHIVE: what was built for each architecture, as one OCI index.
archive() {
    local architecture
    own_buildah manifest create "$1" >/dev/null
    for architecture in "${architectures[@]}"; do
        own_buildah manifest add --os linux --arch "$architecture" "$1" "localhost/built-$architecture" >/dev/null
    done
    rm -f "$2.new"
    own_buildah manifest push --quiet --all "${policy[@]}" "$1" "oci-archive:$2.new:$1"
    mv "$2.new" "$2"
}
