use helm_release::storage::MAX_PLAN;

use super::{Account, AccountEntry};
use crate::mask::Mask;
use crate::plan::{ChangeKind, Name};

fn entry(name: &str, action: ChangeKind) -> AccountEntry {
    let object = Name { api_version: "v1".into(), kind: "ConfigMap".into(), namespace: "n".into(), name: name.into() };
    AccountEntry::of(object, action)
}

/// Returns a text that does not compress.
fn noise(length: usize, seed: u64) -> String {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + ((state >> 33) % 26) as u8)
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn an_account_is_read_as_it_was_written() {
    let whole = AccountEntry {
        fields: vec!["data.a".into(), "data.b".into()],
        more_fields: 3,
        refused: Some("Invalid (spec.x)".into()),
        losers: vec!["kubectl".into()],
        round: Some(2),
        phase: "failed".into(),
        is_adopted: true,
        is_repeated: true,
        ..entry("a", ChangeKind::Refused)
    };
    let account = Account { changes: vec![whole, entry("b", ChangeKind::Create)], omitted: 2, is_continued: true };
    assert_eq!(Account::read(&account.clone().pack().unwrap()), Some(account.clone()));
    let lines = [
        "! ConfigMap n/a (round 2; refused; takes fields from kubectl; failed; it existed and was taken over; \
         recorded as before, applied again): Invalid (spec.x): data.a, data.b and 3 more fields",
        "+ ConfigMap n/b",
        "and 2 more",
        "an interrupted attempt at this revision may have written more",
    ];
    assert_eq!(account.lines(&Mask::default()), lines);
    assert_eq!(account.summary(), "+1 ~0 -0, 1 refused, 2 more");
    assert_eq!(account.json(&Mask::default())["summary"], "+1 ~0 -0, 1 refused, 2 more");
}

#[test]
fn a_large_account_is_cut_and_says_so_and_keeps_what_was_refused() {
    let mut changes: Vec<AccountEntry> = (0..2500)
        .map(|at| AccountEntry { fields: vec![noise(60, at)], ..entry(&noise(40, at + 9999), ChangeKind::Update) })
        .collect();
    changes.push(AccountEntry { refused: Some("Forbidden".into()), ..entry("bad", ChangeKind::Refused) });
    let packed = Account { changes, ..Account::default() }.pack().unwrap();
    assert!(packed.len() <= MAX_PLAN, "{}", packed.len());
    let read = Account::read(&packed).unwrap();
    assert!((100..2500).contains(&read.changes.len()) && read.changes.len() + read.omitted == 2501, "{}", read.omitted);
    assert_eq!(read.changes.last().unwrap().object.name, "bad");
    let all_refused =
        (0..2500).map(|at| AccountEntry { refused: Some(noise(99, at)), ..entry("x", ChangeKind::Refused) });
    let packed = Account { changes: all_refused.collect(), ..Account::default() }.pack().unwrap();
    assert!(Account::read(&packed).unwrap().omitted > 0);
}

#[test]
fn what_is_no_account_is_none() {
    use std::io::Write as _;
    let gzip = |bytes: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    };
    let bomb = gzip(&[b' '; 8 << 20]);
    for bytes in [&b"no"[..], &gzip(b"{}"), &gzip(b"{\"changes\": [{\"action\": \"fly\"}]}"), &bomb] {
        assert_eq!(Account::read(bytes), None);
    }
}
