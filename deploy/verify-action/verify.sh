#!/usr/bin/env bash
# Verifies that a commit is what its receipts say: KEY, BUNDLE and COMMIT come from the environment.
# The commit's trailers name the run and the seal; the seal names the tree. Needs git and Node 20 or newer.
set -euo pipefail

verifier=${VERIFIER:-$(dirname "$0")/../../receipts/web/verify.mjs}
folder=$BUNDLE

trailer() {
    git log -1 --format="%(trailers:key=$1,valueonly)" "$COMMIT" | head -n 1
}

fail() {
    echo "$1" >&2
    exit 1
}

run=$(trailer Whipstitch-Run)
head=$(trailer Whipstitch-Receipt)
[ -n "$run" ] && [ -n "$head" ] || fail "commit $COMMIT has no Whipstitch trailers: it was not made by an authorized push"

if [[ $BUNDLE == https://* ]]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    fetch() { curl --fail --silent --show-error --proto =https --max-filesize 70000000 --output "$folder/$2" "$1"; }
    fetch "$BUNDLE" run.receipts
    for number in $(grep -a -o '"kind":"apply".*"seq":[0-9]*' "$folder/run.receipts" | grep -o '[0-9]*$'); do
        name=$(printf '%04d.diff' "$number")
        fetch "${BUNDLE%/*}/$name" "$name"
    done
fi

line=$(node "$verifier" "$folder" --key "$KEY" --expect-head "${head#sha256:}") || fail "$line"
echo "$line"
[[ $line == *" outcome=succeeded" ]] || fail "the run did not succeed"
# The chain is verified, so its last line is the seal; a line's members are in sorted order.
tree=$(tail -n 1 "$folder/run.receipts" | cut -f1 | sed 's/.*"tree_after":"sha[0-9]*:\([0-9a-f]*\)"}$/\1/')
[ "$tree" = "$(git rev-parse "$COMMIT^{tree}")" ] || fail "the commit's tree is not the tree that was verified"
echo "commit $COMMIT holds exactly the verified tree $tree"
