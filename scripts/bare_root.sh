# Root file systems of a bare Debian, for scripts that prove what toy needs there: source it with `log` set and `say` defined.
# Needs root and, unless TOY_BARE_ROOT is the folder or the archive of a bare Debian 12, mmdebstrap and Debian's mirror. Exit
# code 77 where they are not here.
# shellcheck shell=bash disable=SC2154
((EUID == 0)) || { say "root file systems need root"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

if [[ -z ${TOY_BARE_ROOT:-} ]]; then
  command -v mmdebstrap > /dev/null || { say "mmdebstrap is missing (Debian: apt-get install mmdebstrap)"; exit 77; }
  TOY_BARE_ROOT=$work/bare.tar
  mmdebstrap --variant=minbase bookworm "$TOY_BARE_ROOT" >> "$log" 2>&1 || { say "no Debian: its mirror is not here"; exit 77; }
fi
new_root() {  # FOLDER
  mkdir "$1"
  if [[ -d $TOY_BARE_ROOT ]]; then cp -a "$TOY_BARE_ROOT/." "$1"; else tar -xf "$TOY_BARE_ROOT" -C "$1"; fi
  cp /etc/resolv.conf "$1/etc/resolv.conf"
}
# A command in the stage's root, with its folder and user; /proc and /dev go when it ends. TOY_JOBS bounds what compiles there.
inside() {  # WORD...
  # shellcheck disable=SC2016  # the inner shell reads the variables
  unshare --mount --pid --fork bash -c '
    root=$1 folder=$2 user=$3; shift 3
    mount -t proc proc "$root/proc"
    for device in null zero random urandom; do
      [[ -c $root/dev/$device ]] || : > "$root/dev/$device"
      mount --bind "/dev/$device" "$root/dev/$device"
    done
    exec chroot --userspec="$user" "$root" env -i HOME=/root DEBIAN_FRONTEND=noninteractive \
      ${TOY_JOBS:+CMAKE_BUILD_PARALLEL_LEVEL=$TOY_JOBS} \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -c "cd \"$folder\" && exec \"\$@\"" sh "$@"
  ' bash "$stage" "$folder" "$user" "$@"
}
