//! Deliberate failures: Helm's `fail` and `required`.

use go_template::{FuncError, FuncMap, Str, Value};

/// Marks the start of the chart author's message in an error. The engine shows this message without the template's call chain.
pub const MESSAGE_START: &str = "HELM_ERR_START";

/// Marks the end of the chart author's message.
pub const MESSAGE_END: &str = "HELM_ERR_END";

pub(super) fn register(map: &mut FuncMap) {
    map.add("fail", |message: Str| Err::<Value, _>(marked(&message))).add("required", required);
}

fn required(message: Str, value: Value) -> Result<Value, FuncError> {
    let missing = match &value {
        Value::Nil => true,
        Value::String(s) => s.is_empty(),
        _ => false,
    };
    if missing { Err(marked(&message)) } else { Ok(value) }
}

fn marked(message: &Str) -> FuncError {
    FuncError::new(format!("{MESSAGE_START}{message}{MESSAGE_END}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_call::check;

    #[test]
    fn required_fails_on_nil_and_empty_text_only() {
        check("required", &["m".into(), Value::Nil], Err("HELM_ERR_STARTmHELM_ERR_END"));
        check("required", &["m".into(), "".into()], Err("HELM_ERR_STARTmHELM_ERR_END"));
        check("required", &["m".into(), Value::int(0)], Ok("0"));
        check("fail", &["m".into()], Err("HELM_ERR_STARTmHELM_ERR_END"));
    }
}
