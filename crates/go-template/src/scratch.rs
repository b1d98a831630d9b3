//! A buffer per thread in which strings are built before they become a [`Str`] of their exact size.

use std::cell::Cell;

use crate::value::Str;

/// Maximum capacity of a buffer that is kept, in bytes.
const MAX_KEPT: usize = 1 << 20;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Returns the bytes that the closure writes to the buffer, without an allocation per string. Calls may nest.
pub fn build_str(write: impl FnOnce(&mut Vec<u8>)) -> Str {
    let mut buffer = BUFFER.take();
    buffer.clear();
    write(&mut buffer);
    let text = Str::from(&*buffer);
    if buffer.capacity() <= MAX_KEPT {
        BUFFER.set(buffer);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_calls_do_not_mix_their_text() {
        let mut inner = Str::default();
        let outer = build_str(|out| {
            out.extend_from_slice(b"a");
            inner = build_str(|out| out.extend_from_slice(b"b"));
            out.extend_from_slice(b"c");
        });
        assert_eq!((outer, inner), (Str::from("ac"), Str::from("b")));
    }
}
