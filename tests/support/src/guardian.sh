# Run by cleanup.rs as: sh -c <this> testbed-guardian DIR, with a silent pipe on standard input that closes when the process
# that owns DIR ends. Then kills the processes that belong to DIR, and removes DIR.
trap '' HUP INT TERM
while read -r _; do :; done
dir=$1 state=$1/.guardian

# From here on, nothing can register itself.
mv "$state/open" "$state/closed"

for hook in "$state"/hooks/*; do
    [ ! -f "$hook" ] || timeout -k 5 20 sh "$hook" </dev/null
done

# Prints the live processes that belong to DIR: those whose environment bears the mark, the registered process groups,
# and all their descendants. A registered leader whose start time (field 22 of stat) differs is another process that
# was given the same number later.
ours() {
    {
        cat "$state"/closed/* | sed 's/^/group /'
        grep -lzxF "TESTBED_GUARDIAN=$dir" /proc/[0-9]*/environ | sed 's,^/proc/,marked ,; s,/environ,,'
        cat /proc/[0-9]*/stat | sed 's/^/stat /'
    } 2>/dev/null | awk -v me=$$ '
        $1 == "marked" { ours[$2] = 1; next }
        {
            kind = $1; pid = $2
            sub(/^.*\) /, "") # the name may contain blanks and brackets
            if (kind == "group") { group[pid] = $20; next }
            if ($1 == "Z" || $1 == "X") next
            live[pid] = 1; parent[pid] = $2; pgrp[pid] = $3; start[pid] = $20
        }
        END {
            for (g in group) if ((g in live) && start[g] != group[g]) delete group[g]
            for (p in live) if (pgrp[p] in group) ours[p] = 1
            do {
                more = 0
                for (p in live) if (!(p in ours) && (parent[p] in ours)) { ours[p] = 1; more = 1 }
            } while (more)
            for (p in ours) if ((p in live) && p != me) print p
        }'
}

round=0
while [ $round -lt 200 ]; do
    pids=$(ours)
    [ -n "$pids" ] || break
    # shellcheck disable=SC2086 # a word each
    kill -KILL $pids 2>/dev/null
    sleep 0.03
    round=$((round + 1))
done

# Sometimes a file appears while rm walks the tree.
for _ in 1 2 3; do
    rm -rf "$dir" && break
    sleep 0.1
done
