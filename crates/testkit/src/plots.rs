//! Plots as SVG, without anything that depends on the machine.

use std::fmt::Write;

/// Width and height of a plot, and the space around its area, in pixels.
const SIZE: (f64, f64) = (720.0, 360.0);
const MARGIN: (f64, f64, f64, f64) = (60.0, 20.0, 50.0, 20.0);
const COLOURS: [&str; 4] = ["#b03a2e", "#1f618d", "#239b56", "#7d6608"];
/// Lines of the grid in each direction.
const LINES: usize = 5;

/// Points with a name.
pub struct Series {
    /// As the legend has it.
    pub name: String,
    /// In the units of the axes.
    pub points: Vec<(f64, f64)>,
    /// What is written beside each point; may be empty.
    pub labels: Vec<String>,
}

/// A plot of some series.
pub struct Plot<'a> {
    /// Its heading.
    pub title: &'a str,
    /// What the horizontal axis shows.
    pub x: &'a str,
    /// What the vertical axis shows.
    pub y: &'a str,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// The range of an axis: from zero, or from below the least value, to above the largest.
fn range(values: impl Iterator<Item = f64> + Clone, from_zero: bool) -> (f64, f64) {
    let most = values.clone().fold(f64::MIN, f64::max);
    let least = values.fold(f64::MAX, f64::min);
    let space = (most - least).max(most.abs() * 0.01).max(1e-9) * 0.08;
    (if from_zero { 0.0 } else { least - space }, most + space)
}

impl Plot<'_> {
    /// The plot as an SVG document.
    #[must_use]
    pub fn svg(&self, from_zero: bool) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let (x, y) = (
            range(points().map(|point| point.0), from_zero),
            range(points().map(|point| point.1), from_zero),
        );
        let (left, top, bottom, right) = (MARGIN.0, MARGIN.1 + 20.0, SIZE.1 - MARGIN.2, SIZE.0 - MARGIN.3);
        let at = |point: (f64, f64)| {
            (
                left + (point.0 - x.0) / (x.1 - x.0) * (right - left),
                bottom - (point.1 - y.0) / (y.1 - y.0) * (bottom - top),
            )
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"{left}\" y=\"20\" font-size=\"14\">{}</text>\n",
            SIZE.0, SIZE.1, self.title
        );
        for line in 0..=LINES {
            let share = line as f64 / LINES as f64;
            let (value_x, value_y) = (x.0 + share * (x.1 - x.0), y.0 + share * (y.1 - y.0));
            let (px, py) = at((value_x, value_y));
            let _ = writeln!(
                svg,
                "<path d=\"M{left:.1} {py:.1}H{right:.1}\" stroke=\"#dddddd\"/>\n\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value_y:.2}</text>\n\
                 <text x=\"{px:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{value_x:.2}</text>",
                left - 6.0,
                py + 4.0,
                bottom + 16.0
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(left, right),
            SIZE.1 - 12.0,
            self.x,
            f64::midpoint(top, bottom),
            self.y
        );
        for (number, (series, colour)) in self.series.iter().zip(COLOURS.iter().cycle()).enumerate() {
            for (at_point, point) in series.points.iter().enumerate() {
                let (px, py) = at(*point);
                let _ = writeln!(svg, "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3\" fill=\"{colour}\"/>");
                if let Some(label) = series.labels.get(at_point) {
                    let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{label}</text>", px + 6.0, py - 6.0);
                }
            }
            let (px, py) = (right - 150.0, top + 14.0 * (number as f64 + 1.0));
            let _ = writeln!(
                svg,
                "<circle cx=\"{px:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{py:.1}\">{}</text>",
                py - 4.0,
                px + 8.0,
                series.name
            );
        }
        svg + "</svg>\n"
    }
}
