//! Draws a figure as SVG. Both axes are logarithmic.

use std::fmt::Write as _;

use anyhow::bail;

/// A figure: its title, the names of its axes, and its series.
#[derive(Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) texts: [&'static str; 3],
    pub(crate) series: Vec<Series>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// The height of a label.
const LINE: f64 = 14.0;
/// Colours that are distinguishable without colour vision.
const COLOURS: [&str; 5] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9"];

/// A logarithmic axis between two powers of ten.
struct Axis {
    from: i32,
    to: i32,
    start: f64,
    length: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64> + Clone, start: f64, length: f64) -> anyhow::Result<Axis> {
        let (least, most) = (values.clone().fold(f64::MAX, f64::min), values.fold(0.0, f64::max));
        if !(least > 0.0 && least <= most && most.is_finite()) {
            bail!("a logarithmic axis needs values above 0");
        }
        // Truncation is intended: exponents are small whole numbers.
        #[allow(clippy::cast_possible_truncation, reason = "exponents of ten are small")]
        let (from, to) = (least.log10().floor() as i32, most.log10().ceil() as i32);
        Ok(Axis { from, to: to.max(from + 1), start, length })
    }

    fn at(&self, value: f64) -> f64 {
        self.start + self.length * (value.log10() - f64::from(self.from)) / f64::from(self.to - self.from)
    }

    /// Returns the powers of ten with their positions.
    fn ticks(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        (self.from..=self.to).map(|power| (10f64.powi(power), self.at(10f64.powi(power))))
    }
}

/// Returns the SVG.
///
/// # Errors
/// A value is not above 0, or the figure has no values.
pub(crate) fn draw(figure: &Figure) -> anyhow::Result<String> {
    let [title, x_name, y_name] = figure.texts.map(escape);
    let points = figure.series.iter().flat_map(|series| &series.points);
    let x = Axis::over(points.clone().map(|p| p.0), LEFT, WIDTH - LEFT - RIGHT)?;
    let y = Axis::over(points.map(|p| p.1), HEIGHT - BOTTOM, TOP + BOTTOM - HEIGHT)?;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{title}</text>\n"
    );
    draw_axes(&mut svg, [&x, &y], [&x_name, &y_name])?;
    let ends: Vec<f64> = figure.series.iter().map(|series| series.points.last().map_or(0.0, |p| y.at(p.1))).collect();
    for (n, (series, label)) in figure.series.iter().zip(apart(&ends)).enumerate() {
        draw_series(&mut svg, series, (COLOURS[n % COLOURS.len()], label), [&x, &y])?;
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn draw_axes(svg: &mut String, [x, y]: [&Axis; 2], [x_name, y_name]: [&str; 2]) -> std::fmt::Result {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for (value, at) in x.ticks() {
        writeln!(svg, "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/>")?;
        writeln!(svg, "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{value}</text>", bottom + 16.0)?;
    }
    for (value, at) in y.ticks() {
        writeln!(svg, "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/>")?;
        writeln!(svg, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>", LEFT - 6.0, at + 4.0)?;
    }
    let middle = f64::midpoint(TOP, bottom);
    let (centre, below) = (f64::midpoint(LEFT, right), HEIGHT - 14.0);
    writeln!(svg, "<text x=\"{centre:.1}\" y=\"{below}\" text-anchor=\"middle\">{x_name}</text>")?;
    writeln!(svg, "<text transform=\"translate(18 {middle}) rotate(-90)\" text-anchor=\"middle\">{y_name}</text>")
}

/// Moves labels down until they do not overlap.
fn apart(heights: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by(|a, b| heights[*a].total_cmp(&heights[*b]));
    let (mut moved, mut free) = (heights.to_vec(), f64::MIN);
    for n in order {
        moved[n] = heights[n].max(free);
        free = moved[n] + LINE;
    }
    moved
}

/// Draws a series in its colour, with its label at this height.
fn draw_series(
    svg: &mut String,
    series: &Series,
    (colour, label): (&str, f64),
    [x, y]: [&Axis; 2],
) -> std::fmt::Result {
    let places: Vec<(f64, f64)> = series.points.iter().map(|(a, b)| (x.at(*a), y.at(*b))).collect();
    let line: Vec<String> = places.iter().map(|(a, b)| format!("{a:.1},{b:.1}")).collect();
    writeln!(svg, "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>", line.join(" "))?;
    for (a, b) in &places {
        writeln!(svg, "<circle cx=\"{a:.1}\" cy=\"{b:.1}\" r=\"3\" fill=\"{colour}\"/>")?;
    }
    let Some((a, _)) = places.last() else { return Ok(()) };
    writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
        a + 8.0,
        label + 4.0,
        escape(series.name)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(points: &[(f64, f64)]) -> Figure {
        let series = vec![Series { name: "a < b", points: points.to_vec() }];
        Figure { texts: ["t", "resources", "MiB"], series }
    }

    #[test]
    fn points_are_placed_by_their_logarithms() {
        let svg = draw(&figure(&[(10.0, 1.0), (100.0, 10.0), (1000.0, 100.0)])).unwrap();
        assert!(svg.contains("points=\"70.0,350.0 280.0,195.0 490.0,40.0\""), "{svg}");
        assert!(svg.contains("a &lt; b"));
    }

    #[test]
    fn labels_do_not_overlap() {
        assert_eq!(apart(&[100.0, 50.0, 104.0, 108.0]), [100.0, 50.0, 114.0, 128.0]);
    }

    #[test]
    fn values_without_a_logarithm_are_refused() {
        assert!(draw(&figure(&[(0.0, 1.0)])).is_err());
        assert!(draw(&figure(&[])).is_err());
    }
}
