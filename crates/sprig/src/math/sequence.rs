//! Sequences of integers: `until`, `untilStep` and `seq`.

use go_template::{FuncError, FuncMap, List, ListType, Rest, Value};

use crate::limits::check_list;

pub(super) fn register(map: &mut FuncMap) {
    map.add("until", |count: isize| list("until", 0, count, if count < 0 { -1 } else { 1 }))
        .add("untilStep", |start: isize, stop: isize, step: isize| list("untilStep", start, stop, step))
        .add("seq", seq);
}

fn list(function: &str, start: isize, stop: isize, step: isize) -> Result<List, FuncError> {
    let numbers = until_step(function, start, stop, step)?;
    Ok(List::new(ListType::Int, numbers.map(|n| Value::int(n as i64)).collect()))
}

/// Returns the numbers from `start` up to but excluding `stop`, or no numbers if the step leads away from `stop`.
fn until_step(
    function: &str,
    start: isize,
    stop: isize,
    step: isize,
) -> Result<impl Iterator<Item = isize>, FuncError> {
    let forward = stop >= start;
    let leads = if forward { step > 0 } else { step < 0 };
    let count = if leads { stop.abs_diff(start).div_ceil(step.unsigned_abs()) } else { 0 };
    check_list(function, count)?;
    Ok((0..count as isize).map(move |i| start.wrapping_add(step.wrapping_mul(i))))
}

fn seq(Rest(params): Rest<isize>) -> Result<String, FuncError> {
    let (start, step, end) = match params.as_slice() {
        [end] => (1, if *end < 1 { -1 } else { 1 }, *end),
        [start, end] => (*start, if end < start { -1 } else { 1 }, *end),
        [start, step, end] => (*start, *step, *end),
        _ => return Ok(String::new()),
    };
    if end < start && step > 0 {
        return Ok(String::new());
    }
    let stop = end.wrapping_add(if end < start { -1 } else { 1 });
    let numbers: Vec<String> = until_step("seq", start, stop, step)?.map(|n| n.to_string()).collect();
    Ok(numbers.join(" "))
}
