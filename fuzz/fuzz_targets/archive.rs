//! Any archive is a chart or an error: the bytes as they are, as a tar that was packed, and as the files of one.
#![no_main]

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use helm::chart::{Chart, File};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = Chart::load_archive(input);
    let mut packed = GzEncoder::new(Vec::new(), Compression::none());
    packed.write_all(input).expect("a vector takes everything");
    let _ = Chart::load_archive(&packed.finish().expect("a vector takes everything"));
    let _ = Chart::load_files(files(input));
});

/// Name and content in turn, NUL bytes between.
fn files(input: &[u8]) -> Vec<File> {
    let parts: Vec<&[u8]> = input.split(|byte| *byte == 0).collect();
    let file = |pair: &[&[u8]]| File {
        name: String::from_utf8_lossy(pair[0]).into_owned(),
        data: pair.get(1).copied().unwrap_or_default().into(),
    };
    parts.chunks(2).map(file).collect()
}
