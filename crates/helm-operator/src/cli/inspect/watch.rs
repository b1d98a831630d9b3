//! `--watch`: shows an answer again whenever it changes. On a terminal, redraws as many lines as fit, from the first
//! one; other outputs get one answer after the other.

use std::convert::Infallible;
use std::io::{self, Write};
use std::time::Duration;

use super::{Answer, failed_to_write};
use crate::terminal::plain;

/// The pause before the answer is read again.
const PAUSE: Duration = Duration::from_secs(2);

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// Where answers are shown.
pub(super) struct Screen<'s> {
    pub(super) out: &'s mut dyn Write,
    /// Where to report an unreadable answer if the output is not a terminal.
    pub(super) errors: &'s mut dyn Write,
    /// Returns the size of the terminal; `None` for other outputs.
    pub(super) size: &'s dyn Fn() -> Option<Size>,
}

/// Asks repeatedly. Waits for an answer that cannot be read, unless it is the first.
///
/// # Errors
/// The first answer cannot be read, or none can be written.
pub(super) async fn watch(
    mut ask: impl AsyncFnMut() -> Result<Answer, String>,
    screen: &mut Screen<'_>,
) -> Result<Infallible, String> {
    let mut text = ask().await?.text;
    let (mut trouble, mut shown) = (None, Shown::default());
    loop {
        screen.show(&text, trouble.as_deref(), &mut shown).map_err(failed_to_write)?;
        tokio::time::sleep(PAUSE).await;
        match ask().await {
            Ok(answer) => (text, trouble) = (answer.text, None),
            Err(error) => trouble = Some(format!("cannot be read at the moment: {}", plain(&error))),
        }
    }
}

/// What was shown last.
#[derive(Default)]
struct Shown {
    text: String,
    trouble: Option<String>,
}

impl Screen<'_> {
    /// Shows what has changed.
    fn show(&mut self, text: &str, trouble: Option<&str>, last: &mut Shown) -> io::Result<()> {
        if let Some(size) = (self.size)() {
            let drawn = drawn(text, trouble, size);
            if drawn != last.text {
                self.out.write_all(drawn.as_bytes())?;
                last.text = drawn;
            }
            return self.out.flush();
        }
        if let Some(trouble) = trouble.filter(|trouble| last.trouble.as_deref() != Some(trouble)) {
            writeln!(self.errors, "{trouble}")?;
        }
        last.trouble = trouble.map(str::to_owned);
        if text != last.text {
            let gap = if last.text.is_empty() { "" } else { "\n" };
            write!(self.out, "{gap}{text}")?;
            text.clone_into(&mut last.text);
        }
        self.out.flush()
    }
}

/// Returns what draws a text over the last one, without a moment in which the terminal is empty.
fn drawn(text: &str, trouble: Option<&str>, size: Size) -> String {
    let lines: Vec<&str> = trouble.into_iter().chain(text.lines()).collect();
    let lines: String = fitted(&lines, size).iter().map(|line| format!("{line}\u{1b}[K\n")).collect();
    format!("\u{1b}[H{lines}\u{1b}[J")
}

/// Returns the first lines, as many as a terminal has rows for, and how many are missing.
fn fitted(lines: &[&str], Size { rows, columns }: Size) -> Vec<String> {
    let height = |line: &&str| line.chars().count().div_ceil(columns.max(1)).max(1);
    // The last row is left to the cursor.
    let room = rows.saturating_sub(1).max(2);
    if lines.iter().map(height).sum::<usize>() <= room {
        return lines.iter().map(ToString::to_string).collect();
    }
    let (room, mut used) = (room - 1, 0);
    let fits = |line: &&&str| {
        used += height(line);
        used <= room
    };
    let mut shown: Vec<String> = lines.iter().take_while(fits).map(ToString::to_string).collect();
    if shown.is_empty() {
        // The first line names the cause.
        shown.extend(lines.first().map(|line| line.chars().take(room.saturating_mul(columns)).collect()));
    }
    let more = lines.len() - shown.len();
    shown.push(format!("… {more} more {}", if more == 1 { "line" } else { "lines" }));
    shown
}

/// Returns the terminal's size; `None` if standard output is not a terminal.
pub(super) fn size() -> Option<Size> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    // A terminal that does not know its size is shown everything.
    let known = |count: u16| if count == 0 { usize::MAX } else { usize::from(count) };
    Some(Size { rows: known(size.ws_row), columns: known(size.ws_col) })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The output, shared by two tasks.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Written {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
        }
    }

    /// Gives these answers one after the other, two seconds apart, and returns what each adds to both outputs.
    async fn shown(answers: &[Result<&str, &str>], size: Option<Size>) -> Vec<(String, String)> {
        let (out, errors) = (Written::default(), Written::default());
        let mut left = answers.iter().copied();
        let all = Mutex::new(Vec::new());
        let mut is_first = true;
        let ask = async || {
            if !std::mem::take(&mut is_first) {
                all.lock().unwrap().push((out.take(), errors.take()));
            }
            match left.next() {
                Some(Ok(text)) => Ok(Answer { text: text.to_owned(), is_ready: false }),
                Some(Err(why)) => Err(why.to_owned()),
                None => std::future::pending().await,
            }
        };
        let mut screen = Screen { out: &mut out.clone(), errors: &mut errors.clone(), size: &|| size };
        let end = tokio::time::sleep(PAUSE * answers.len() as u32 + PAUSE / 2);
        tokio::select! {
            ended = watch(ask, &mut screen) => drop(ended.map_err(|why| all.lock().unwrap().push((String::new(), why)))),
            () = end => {}
        }
        all.into_inner().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_shown_when_it_changes_and_an_outage_is_waited_for() {
        let answers = [Ok("a\n"), Ok("a\n"), Err("no \u{1b}server"), Err("no \u{1b}server"), Ok("a\n"), Ok("b\nc\n")];
        let trouble = "cannot be read at the moment: no \u{fffd}server";
        let of = |out: &str, errors: &str| (out.to_owned(), errors.to_owned());
        let expected = [of("a\n", ""), of("", ""), of("", &format!("{trouble}\n")), of("", ""), of("", "")];
        let printed = shown(&answers, None).await;
        assert_eq!(printed[..5], expected);
        assert_eq!(printed[5], of("\nb\nc\n", ""), "no escape sequence in a file");
        let terminal = shown(&answers, Some(Size { rows: 24, columns: 80 })).await;
        let draws = |lines: &[&str]| {
            let lines: String = lines.iter().map(|line| format!("{line}\u{1b}[K\n")).collect();
            of(&format!("\u{1b}[H{lines}\u{1b}[J"), "")
        };
        let expected =
            [draws(&["a"]), of("", ""), draws(&[trouble, "a"]), of("", ""), draws(&["a"]), draws(&["b", "c"])];
        assert_eq!(terminal, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_answer_that_cannot_be_read_ends_the_watch() {
        assert_eq!(shown(&[Err("no such kind")], None).await, [(String::new(), "no such kind".to_owned())]);
    }

    #[test]
    fn a_terminal_shows_the_first_lines_as_far_as_it_is_high() {
        let check = |text: &str, rows: usize, columns: usize, expected: &[&str]| {
            let shown = drawn(text, None, Size { rows, columns });
            let shown = shown.strip_prefix("\u{1b}[H").unwrap().strip_suffix("\u{1b}[J").unwrap();
            let lines: Vec<&str> = shown.lines().map(|line| line.strip_suffix("\u{1b}[K").unwrap()).collect();
            assert_eq!(lines, expected, "{text:?} in {rows}x{columns}");
        };
        check("a\nb\nc\n", 4, 80, &["a", "b", "c"]);
        check("a\nb\nc\nd\n", 4, 80, &["a", "b", "… 2 more lines"]);
        check("aaaaaa\nb\nc\nd\n", 5, 3, &["aaaaaa", "b", "… 2 more lines"]);
        check("a\nbbbbbb\nc\n", 4, 3, &["a", "… 2 more lines"]);
        check("aaaaaaaaa\nb\n", 3, 3, &["aaa", "… 1 more line"]);
        check("a\nb\n", 0, 0, &["a", "b"]);
    }
}
