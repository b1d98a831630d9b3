//! Where a text grows before it becomes a [`Str`] of its exact size: one buffer a thread, instead of one a text.

use std::cell::Cell;

use crate::value::Str;

/// A buffer that grew beyond this is not kept.
const MAX_KEPT: usize = 1 << 20;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The text that the closure writes. Inside each other, each has a buffer of its own.
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
    fn texts_inside_each_other_do_not_mix() {
        let mut inner = Str::default();
        let outer = build_str(|out| {
            out.extend_from_slice(b"a");
            inner = build_str(|out| out.extend_from_slice(b"b"));
            out.extend_from_slice(b"c");
        });
        assert_eq!((outer, inner), (Str::from("ac"), Str::from("b")));
    }
}
