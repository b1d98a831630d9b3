//! Slash-separated paths. Counterpart: Go's `path`, and `path/filepath` on Linux.

use go_template::{FuncMap, Str};

pub(super) fn register(map: &mut FuncMap) {
    for os in [false, true] {
        let name =
            |name: &str| if os { format!("os{}{}", name[..1].to_uppercase(), &name[1..]) } else { name.to_owned() };
        map.add(&name("base"), |p: Str| base(&p).to_vec())
            .add(&name("clean"), |p: Str| clean(&p))
            .add(&name("dir"), |p: Str| dir(&p))
            .add(&name("ext"), |p: Str| ext(&p).to_vec())
            .add(&name("isAbs"), |p: Str| p.starts_with(b"/"));
    }
}

/// Returns the offset of the last element.
fn last_start(path: &[u8]) -> usize {
    path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1)
}

fn base(path: &[u8]) -> &[u8] {
    if path.is_empty() {
        return b".";
    }
    let end = path.iter().rposition(|b| *b != b'/').map_or(0, |at| at + 1);
    let name = &path[last_start(&path[..end])..end];
    if name.is_empty() { b"/" } else { name }
}

fn dir(path: &[u8]) -> Vec<u8> {
    clean(&path[..last_start(path)])
}

fn ext(path: &[u8]) -> &[u8] {
    let name = &path[last_start(path)..];
    name.iter().rposition(|b| *b == b'.').map_or(&[], |at| &name[at..])
}

/// Returns the shortest equivalent path: it has no empty elements and no `.`, and has `..` only at the beginning of a relative path.
fn clean(path: &[u8]) -> Vec<u8> {
    let rooted = path.starts_with(b"/");
    let mut elements: Vec<&[u8]> = Vec::new();
    for element in path.split(|b| *b == b'/') {
        match element {
            b"" | b"." => {}
            b".." if elements.last().is_some_and(|last| *last != b"..") => {
                elements.pop();
            }
            b".." if rooted => {}
            element => elements.push(element),
        }
    }
    let joined = elements.join(&b'/');
    match (rooted, joined.is_empty()) {
        (true, _) => [b"/", joined.as_slice()].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_returns_the_shortest_equivalent_path() {
        let cases =
            [("", "."), ("/", "/"), ("a//b/./c/..", "a/b"), ("../../a", "../../a"), ("/../a", "/a"), ("a/../..", "..")];
        for (path, expected) in cases {
            assert_eq!(String::from_utf8_lossy(&clean(path.as_bytes())), expected, "{path}");
        }
    }

    #[test]
    fn base_dir_and_ext_split_paths() {
        let cases = [
            ("/etc/app/main.yaml", "main.yaml", "/etc/app", ".yaml"),
            ("a/b/", "b", "a/b", ""),
            ("", ".", ".", ""),
            ("///", "/", "/", ""),
            ("x.tar.gz", "x.tar.gz", ".", ".gz"),
            ("a.b/c", "c", "a.b", ""),
        ];
        for (path, want_base, want_dir, want_ext) in cases {
            let path = path.as_bytes();
            assert_eq!(base(path), want_base.as_bytes());
            assert_eq!(dir(path), want_dir.as_bytes());
            assert_eq!(ext(path), want_ext.as_bytes());
        }
    }
}
