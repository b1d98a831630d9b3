//! Compares every character with Go 1.26, by checksums of Go's answers.

use super::*;

/// A name, the function under test, and the number of characters and the checksum that Go computes.
type Expected<T> = (&'static str, fn(char) -> T, usize, u64);

/// FNV-1a over code points.
struct Checksum {
    count: usize,
    hash: u64,
}

impl Checksum {
    fn of(changes: impl Iterator<Item = [Option<char>; 2]>) -> Checksum {
        let mut sum = Checksum { count: 0, hash: 0xcbf2_9ce4_8422_2325 };
        for entry in changes {
            sum.count += 1;
            for c in entry.into_iter().flatten() {
                sum.hash = (sum.hash ^ u64::from(c)).wrapping_mul(0x100_0000_01b3);
            }
        }
        sum
    }
}

#[test]
fn classes_are_gos() {
    let classes: [Expected<bool>; 9] = [
        ("print", is_print, 148_998, 0xeda3_7088_7352_dcdf),
        ("letter", is_letter, 136_104, 0xfff8_2114_3885_7ba3),
        ("upper", is_upper, 1831, 0xd974_1dee_0db5_6c35),
        ("lower", is_lower, 2233, 0xec0a_aca6_e002_ff8b),
        ("title", is_title, 31, 0x87fd_939e_4214_d25f),
        ("digit", is_digit, 680, 0x1eec_759a_d243_ff1d),
        ("number", is_number, 1831, 0xf907_fd5a_2904_6af0),
        ("punct", is_punct, 842, 0x471c_ef44_0d12_4e56),
        ("space", is_space, 25, 0x2315_91ad_12ff_e059),
    ];
    for (name, is_member, count, hash) in classes {
        let sum = Checksum::of(('\0'..=char::MAX).filter(|c| is_member(*c)).map(|c| [Some(c), None]));
        assert_eq!((sum.count, sum.hash), (count, hash), "{name}");
    }
}

#[test]
fn case_mappings_are_gos() {
    let mappings: [Expected<char>; 3] = [
        ("upper", to_upper, 1450, 0xdf0a_0ef9_7914_24ba),
        ("lower", to_lower, 1433, 0xab53_73d0_02a2_9227),
        ("title", to_title, 1404, 0x5e6b_2ad6_9cc4_51cc),
    ];
    for (name, map, count, hash) in mappings {
        let changes = ('\0'..=char::MAX).filter(|c| map(*c) != *c).map(|c| [Some(c), Some(map(c))]);
        let sum = Checksum::of(changes);
        assert_eq!((sum.count, sum.hash), (count, hash), "{name}");
    }
}
