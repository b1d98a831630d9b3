//! Loads any bytes as a chart: as they are, as a tar that gets compressed, and as the files of one.
#![no_main]

use flate2::Crc;
use helm::chart::Chart;
use libfuzzer_sys::fuzz_target;

const BLOCK: usize = 512;

fuzz_target!(|input: &[u8]| {
    let _ = Chart::load_archive(input);
    if input.len() >= BLOCK {
        let _ = Chart::load_archive(&packed(&with_sums(input.to_vec())));
    }
    let _ = Chart::from_files(files(input));
});

/// Corrects each header's checksum in the tar, because readers stop at a wrong one.
fn with_sums(mut tar: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while let Some(header) = tar.get_mut(at..at + BLOCK) {
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        let size = tar::Header::from_byte_slice(header).entry_size().unwrap_or_default();
        let content = usize::try_from(size).unwrap_or(usize::MAX).div_ceil(BLOCK).saturating_mul(BLOCK);
        at = at.saturating_add(BLOCK).saturating_add(content).min(tar.len());
    }
    tar
}

/// Wraps the data in uncompressed gzip with a correct checksum.
fn packed(data: &[u8]) -> Vec<u8> {
    let mut crc = Crc::new();
    crc.update(data);
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    for part in data.chunks(0xffff) {
        let length = part.len() as u16;
        bytes.push(0);
        bytes.extend([length.to_le_bytes(), (!length).to_le_bytes()].concat());
        bytes.extend(part);
    }
    bytes.extend([1, 0, 0, 0xff, 0xff]);
    bytes.extend([crc.sum().to_le_bytes(), crc.amount().to_le_bytes()].concat());
    bytes
}

/// Splits the input at NUL bytes into alternating names and contents.
fn files(input: &[u8]) -> Vec<(String, &[u8])> {
    let parts: Vec<&[u8]> = input.split(|byte| *byte == 0).collect();
    let name = |pair: &[&[u8]]| String::from_utf8_lossy(pair[0]).into_owned();
    parts.chunks(2).map(|pair| (name(pair), pair.get(1).copied().unwrap_or_default())).collect()
}
