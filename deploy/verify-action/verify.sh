#!/usr/bin/env bash
# Verifies that a commit is exactly what was verified and authorized: KEY, BUNDLE, COMMIT and, where keys
# changed, KEYRING come from the environment. Needs git, and Node 20 or newer or VERIFIER, a `whipstitch`.
#
# The commit's trailers name the run and its seal; the seal names the tree; an authorization that follows
# the seal names the one parent; and a push that was recorded names the commit itself.
set -euo pipefail

commit=$(git rev-parse --verify "$COMMIT^{commit}")
folder=$BUNDLE

trailer() {
    git log -1 --format="%(trailers:key=$1,valueonly)" "$commit"
}

fail() {
    echo "$1" >&2
    exit 1
}

verify() {
    if [ -n "${VERIFIER:-}" ]; then
        "$VERIFIER" verify "$@" | sed '/^ seq /,$d'
    else
        node "$(dirname "$0")/../../receipts/web/verify.mjs" "$@"
    fi
}

run=$(trailer Whipstitch-Run)
head=$(trailer Whipstitch-Receipt)
[ -n "$run" ] && [ -n "$head" ] || fail "commit $commit has no Whipstitch trailers: it was not made by an authorized push"

if [[ $BUNDLE == https://* ]]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    address=${BUNDLE%/run.receipts}
    fetch() { curl --fail --silent --show-error --proto =https --max-filesize "$2" --output "$folder/$1" "$address/$1"; }
    fetch run.receipts 1700000000
    fetch run.authorizations 1700000000
    for number in $(grep -a -o '"kind":"apply".*"seq":[0-9]*' "$folder/run.receipts" | grep -o '[0-9]*$'); do
        fetch "$(printf '%04d.diff' "$number")" 67108864
    done
fi

options=(--key "$KEY" --expect-head "${head#sha256:}" --authorizations)
[ -z "${KEYRING:-}" ] || options+=(--keyring "$KEYRING")
lines=$(verify "$folder" "${options[@]}") || fail "$lines"
echo "$lines"
[[ ${lines%%$'\n'*} == *" outcome=succeeded" ]] || fail "the run did not succeed"
[[ $lines == *" run=$(printf 'whipstitch run %s' "$run" | sha256sum | cut -d' ' -f1) "* ]] || fail "the receipts are of another run than $run"

# What follows reads records that were verified above; members are in sorted order, and quotes in texts are escaped.
tree=$(tail -n 1 "$folder/run.receipts" | cut -f1 | sed 's/.*"tree_after":"sha[0-9]*:\([0-9a-f]*\)"}$/\1/')
[ "$tree" = "$(git rev-parse "$commit^{tree}")" ] || fail "the commit's tree is not the tree that was verified"
parents=$(git log -1 --format=%P "$commit")
decisions=$folder/run.authorizations
[ -f "$decisions" ] || fail "nobody authorized the run's patch"
grep -a -q "\"head_commit\":\"sha[0-9]*:$parents\".*\"kind\":\"authorize\"" "$decisions" ||
    fail "nobody authorized the patch on top of ${parents:-nothing}"
if grep -a -q '"kind":"push"' "$decisions"; then
    grep -a -q "\"commit\":\"sha[0-9]*:$commit\".*\"kind\":\"push\"" "$decisions" || fail "another commit was pushed than $commit"
fi
echo "commit $commit is exactly what was verified and authorized: tree $tree on top of $parents"
