//! Random text and numbers from the operating system. Counterpart: Sprig's `rand…` and `shuffle`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use go_template::{FuncError, FuncMap, Str};

use super::limits::check_string;
use golibs::utf8::chars;
use golibs::work::spend;

const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const DIGITS: &[u8] = b"0123456789";

pub(super) fn register(map: &mut FuncMap) {
    let alphanumeric = [LETTERS, DIGITS].concat();
    let ascii: Vec<u8> = (b' '..=b'~').collect();
    let kinds: [(&str, Vec<u8>); 4] = [
        ("randAlphaNum", alphanumeric),
        ("randAlpha", LETTERS.to_vec()),
        ("randNumeric", DIGITS.to_vec()),
        ("randAscii", ascii),
    ];
    for (name, set) in kinds {
        map.add(name, move |count: isize| text(name, count, &set));
    }
    map.add("randBytes", rand_bytes).add("randInt", rand_int).add("shuffle", shuffle);
}

fn fill(bytes: &mut [u8]) -> Result<(), FuncError> {
    getrandom::fill(bytes).map_err(|e| FuncError::new(format!("cannot read random bytes: {e}")))
}

/// Random numbers, read from the operating system in blocks.
struct Numbers {
    block: Vec<u8>,
    used: usize,
}

impl Numbers {
    /// Creates a source that reads this many numbers at a time.
    fn in_blocks_of(count: usize) -> Numbers {
        let block = vec![0; 8 * count];
        Numbers { used: block.len(), block }
    }

    fn next(&mut self) -> Result<u64, FuncError> {
        if self.used == self.block.len() {
            fill(&mut self.block)?;
            self.used = 0;
        }
        let bytes = &self.block[self.used..self.used + 8];
        self.used += 8;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Returns a uniformly distributed number below the bound.
    fn below(&mut self, bound: u64) -> Result<u64, FuncError> {
        let fair = u64::MAX - u64::MAX % bound;
        loop {
            let number = self.next()?;
            if number < fair {
                return Ok(number % bound);
            }
        }
    }
}

/// Returns this many random characters, or none for a negative count, whose error Sprig ignores.
fn text(function: &str, count: isize, set: &[u8]) -> Result<Vec<u8>, FuncError> {
    let count = usize::try_from(count).unwrap_or(0);
    check_string(function, count)?;
    let fair = 256 - 256 % set.len();
    let mut out = Vec::with_capacity(count);
    let mut bytes = vec![0; count.min(4096)];
    while out.len() < count {
        fill(&mut bytes)?;
        let usable = bytes.iter().map(|b| usize::from(*b)).filter(|b| *b < fair);
        out.extend(usable.map(|b| set[b % set.len()]).take(count - out.len()));
    }
    Ok(out)
}

fn rand_bytes(count: isize) -> Result<String, FuncError> {
    let count = usize::try_from(count).map_err(|_| FuncError::new("runtime error: makeslice: len out of range"))?;
    check_string("randBytes", count.saturating_mul(4) / 3)?;
    let mut bytes = vec![0; count];
    fill(&mut bytes)?;
    Ok(STANDARD.encode(bytes))
}

fn rand_int(min: isize, max: isize) -> Result<isize, FuncError> {
    let range = max.wrapping_sub(min);
    let range = u64::try_from(range).ok().filter(|r| *r > 0);
    let range = range.ok_or_else(|| FuncError::new("invalid argument to Intn"))?;
    Ok(min.wrapping_add(Numbers::in_blocks_of(1).below(range)? as isize))
}

fn shuffle(s: Str) -> Result<String, FuncError> {
    // Shuffling takes one random number per character.
    spend(s.len() as u64)?;
    let mut chars: Vec<char> = chars(&s).collect();
    let mut numbers = Numbers::in_blocks_of(chars.len().clamp(1, 512));
    for i in (1..chars.len()).rev() {
        chars.swap(i, numbers.below(i as u64 + 1)? as usize);
    }
    Ok(chars.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_call::{check, text_of};
    use go_template::Value;

    #[test]
    fn random_text_has_the_requested_length_and_characters() {
        for (name, set) in [("randAlpha", LETTERS), ("randNumeric", DIGITS)] {
            let text = text_of(name, &[Value::int(5000)]);
            assert!(text.len() == 5000 && text.bytes().all(|b| set.contains(&b)), "{name}");
        }
        check("randAlphaNum", &[Value::int(-1)], Ok(""));
        check(
            "randAscii",
            &[Value::int(1 << 40)],
            Err("limit MAX_STRING_BYTES exceeded: randAscii would make more than 16777216 bytes"),
        );
    }

    #[test]
    fn rand_int_stays_in_its_range_and_rejects_an_empty_one() {
        for _ in 0..100 {
            assert!(["3", "4"].contains(&text_of("randInt", &[Value::int(3), Value::int(5)]).as_str()));
        }
        check("randInt", &[Value::int(5), Value::int(5)], Err("invalid argument to Intn"));
        check("randBytes", &[Value::int(-1)], Err("runtime error: makeslice: len out of range"));
    }

    #[test]
    fn shuffle_keeps_every_character() {
        let mut text: Vec<char> = text_of("shuffle", &["héllo".into()]).chars().collect();
        text.sort_unstable();
        assert_eq!(text, ['h', 'l', 'l', 'o', 'é']);
    }
}
