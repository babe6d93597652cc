#!/bin/sh
# sync.sh FROM TO FOLDER...: makes TO/FOLDER equal to FROM/FOLDER, leaving files whose bytes are the same untouched, so that
# what was compiled from them stays fresh.
set -eu
from=$1 to=$2
shift 2
for folder; do
    mkdir -p "$from/$folder" "$to/$folder"
    (cd "$to/$folder" && find . -type f) | while read -r f; do
        [ -e "$from/$folder/$f" ] || rm "$to/$folder/$f"
    done
    (cd "$from/$folder" && find . -type f) | while read -r f; do
        cmp -s "$from/$folder/$f" "$to/$folder/$f" || { mkdir -p "$(dirname "$to/$folder/$f")"; cp "$from/$folder/$f" "$to/$folder/$f"; }
    done
done
