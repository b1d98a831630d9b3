//! Recognizes dates in yaml.v2's four layouts, by the rules of Go's `time.Parse`.

/// Returns whether yaml.v2 reads the text as a timestamp.
pub(super) fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    let year = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    year == 4 && bytes.get(4) == Some(&b'-') && Cursor(bytes).parse().is_some()
}

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn parse(mut self) -> Option<()> {
        let year = self.digits(4)?;
        self.expect(b'-')?;
        let month = self.number(1, 12)?;
        self.expect(b'-')?;
        let day = self.number(0, 99)?;
        match self.0.first() {
            None => {}
            Some(b'T' | b't') => {
                self.0 = &self.0[1..];
                self.clock()?;
                self.zone()?;
            }
            Some(b' ') => {
                while self.expect(b' ').is_some() {}
                self.clock()?;
            }
            Some(_) => return None,
        }
        (self.0.is_empty() && (1..=days_in(year, month)).contains(&day)).then_some(())
    }

    fn clock(&mut self) -> Option<()> {
        self.number(0, 23)?;
        self.expect(b':')?;
        self.number(0, 59)?;
        self.expect(b':')?;
        self.number(0, 59)?;
        if let [b'.' | b',', b'0'..=b'9', ..] = self.0 {
            let digits = self.0[1..].iter().take_while(|b| b.is_ascii_digit()).count();
            self.0 = &self.0[1 + digits..];
        }
        Some(())
    }

    fn zone(&mut self) -> Option<()> {
        if self.expect(b'Z').is_some() {
            return Some(());
        }
        if self.expect(b'+').is_none() {
            self.expect(b'-')?;
        }
        let hours = self.digits(2)?;
        self.expect(b':')?;
        let minutes = self.digits(2)?;
        (hours <= 24 && minutes <= 60).then_some(())
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    fn digits(&mut self, count: usize) -> Option<u32> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        digits.iter().try_fold(0, |n, b| b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0')))
    }

    /// Splits off one or two digits whose value is in the range.
    fn number(&mut self, least: u32, most: u32) -> Option<u32> {
        let count = if self.0.get(1).is_some_and(u8::is_ascii_digit) { 2 } else { 1 };
        self.digits(count).filter(|n| (least..=most).contains(n))
    }
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
