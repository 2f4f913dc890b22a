#!/bin/sh
# Verifies a run's receipts with openssl and sha256sum alone: signatures, links and diffs.
# usage: by-hand.sh FOLDER KEY.pem      FOLDER holds run.receipts and the diffs
set -eu
folder=$1 key=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prev=$(printf '%064d' 0)
number=0
last=

fail() {
    echo "receipt $number: $1" >&2
    exit 1
}

# member NAME : the value of a member of the receipt in hand; its values hold no escapes where this is used.
member() {
    sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$work/receipt"
}

while IFS= read -r line; do
    printf '%s' "$line" | cut -f1 | tr -d '\n' > "$work/receipt"
    printf '%s' "$line" | cut -f2 | tr -d '\n' | sed 's/../\\\\x&/g' | xargs printf '%b' > "$work/signature"
    openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in "$work/receipt" -sigfile "$work/signature" > /dev/null ||
        fail "the signature is not the key's"
    [ "$(member seq)" = "$number" ] || fail "the sequence number is $(member seq)"
    [ "$(member prev)" = "$prev" ] || fail "it does not follow the receipt before it"
    if [ "$(member kind)" = apply ]; then
        diff=$folder/$(printf '%04d' "$number").diff
        [ "$(sha256sum < "$diff" | cut -d' ' -f1)" = "$(member diff_sha256)" ] || fail "the diff is another"
    fi
    last=$(member kind)
    prev=$(sha256sum < "$work/receipt" | cut -d' ' -f1)
    number=$((number + 1))
done < "$folder/run.receipts"

[ "$last" = seal ] || { echo "no seal: the chain is cut or still growing" >&2; exit 3; }
echo "$number receipts, signed and linked; head $prev"
