//! The functions that JavaScript calls.

use helm::chart::{Chart, File};
use helm::disk::without_ignored;
use helm::engine::Engine;
use js_sys::{Array, Uint8Array};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsError, JsValue};

use crate::{answer, vectors};

/// The files of a chart.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Files(Vec<File>);

#[wasm_bindgen]
impl Files {
    /// Starts without a file.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Files {
        Files::default()
    }

    /// Adds a file; its name is relative to the chart's folder.
    pub fn add(&mut self, name: String, data: &[u8]) {
        self.0.push(File::from((name, data.to_vec())));
    }

    /// Returns the files that `.helmignore` does not exclude, as pairs of name and content.
    ///
    /// # Errors
    /// `.helmignore` contains an invalid pattern.
    pub fn kept(self) -> Result<Array, JsError> {
        Ok(pairs(without_ignored(self.0)?))
    }
}

/// A chart that is rendered again and again.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Playground(Engine);

#[wasm_bindgen]
impl Playground {
    /// Opens a chart.
    ///
    /// # Errors
    /// The files are not a chart, or exceed a limit.
    #[wasm_bindgen(constructor)]
    pub fn new(files: Files) -> Result<Playground, JsError> {
        Ok(Playground(answer::open(files.0)?))
    }

    /// Returns the chart's name.
    #[wasm_bindgen(getter)]
    pub fn name(&self) -> String {
        self.0.chart().metadata.name.to_string()
    }

    /// Renders; question and answer are JSON.
    ///
    /// # Errors
    /// The question is not one.
    pub fn render(&self, question: &str) -> Result<String, JsError> {
        Ok(answer::answer(&self.0, &serde_json::from_str(question)?).to_string())
    }
}

/// Unpacks a `.tgz` archive into pairs of name and content.
///
/// # Errors
/// The archive is malformed or too large.
#[wasm_bindgen]
pub fn unpack(archive: &[u8]) -> Result<Array, JsError> {
    Ok(pairs(Chart::unpack(archive)?))
}

fn pairs(files: Vec<File>) -> Array {
    let pair = |file: File| {
        let (name, data) = (JsValue::from(file.name), Uint8Array::from(&*file.data));
        JsValue::from(Array::of2(&name, &data))
    };
    files.into_iter().map(pair).collect()
}

/// Returns what a recorded template prints, for the test of the module.
///
/// # Errors
/// The template fails, with its text.
#[wasm_bindgen]
pub fn replay(record: &str) -> Result<String, JsError> {
    vectors::output(record).map_err(|text| JsError::new(&text))
}
