//! What the screen looks like: a head, two tables and the event lines, or one job or node; a line for keys and
//! questions at the bottom. Everything is drawn from the state alone.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Widget};
use starfarm_protocol::admin::{EventLine, JobCommand, NodeCommand};
use starfarm_protocol::state::NodeState;
use unicode_width::UnicodeWidthStr;

use super::app::{App, Focus, Mode, View, drain_or_resume, pause_or_resume};
use super::columns::{Column, Paint, Row, UNIT_SIGNS};
use super::detail;
use super::keys::KEYS;
use super::layout::{FRAME, HEAD, Rows};
use super::list::List;
use crate::human;
use crate::output::table::Align;

/// Lines that a long message covers at most.
const FOOTER_MAX: u16 = 4;

pub(super) fn draw(app: &App, frame: &mut Frame) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    let [top, body, _] =
        Layout::vertical([Constraint::Length(HEAD), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    put_all(head(app), Align::Left, top, buffer);
    match &app.view {
        View::Tables => tables(app, body, buffer),
        View::Tree(top) => {
            let (short, posts) = detail::tree(app);
            put_all(short.into_iter().chain(posts.into_iter().skip(*top)), Align::Left, body, buffer);
        }
        View::Open(_, top) => put_all(detail::lines(app).into_iter().skip(*top), Align::Left, body, buffer),
    }
    let footer = footer(app, usize::from(area.width));
    let room = area.height.saturating_sub(HEAD).min(FOOTER_MAX);
    let height = room.min(footer.len() as u16);
    let place = Rect { y: area.bottom() - height, height, ..area };
    Clear.render(place, buffer);
    put_all(footer, Align::Left, place, buffer);
    if app.mode == Mode::Help {
        help(app, area, buffer);
    }
}

fn head(app: &App) -> [Line<'static>; 2] {
    let count = |count: u64| human::count(count as f64);
    let bold = |text: &'static str| Span::styled(text, Modifier::BOLD);
    let first = match (app.silence(), &app.status) {
        (Some((silent, _)), _) => {
            let words = format!(" no answer for {} s, trying again ", silent.as_secs());
            let style = Paint(app.color).word("lost").add_modifier(Modifier::REVERSED);
            Line::from(Span::styled(words, style))
        }
        (None, None) => Line::from(bold("starfarm")),
        (None, Some(status)) => {
            let up = app.nodes.all().filter(|node| node.state == NodeState::Up);
            let (nodes, slots) =
                up.fold((0, 0), |(nodes, slots), node| (nodes + 1, slots + u64::from(node.slots)));
            let name = "starfarm ";
            let items = [
                human::printable(&status.farm).chars().take(12).collect(),
                format!("nodes {nodes}/{}", app.nodes.all().count()),
                format!("slots {slots}"),
                format!("epoch {}", status.epoch),
                format!("up {}", human::seconds(status.up_seconds.floor())),
                // The line below has no room for them before 130 columns.
                format!("speed-ups {}  slow-downs {}", count(status.speed_ups), count(status.slow_downs)),
            ];
            let items = fitting(&items, usize::from(app.size.0).saturating_sub(name.len()));
            Line::from_iter([bold(name), Span::raw(items)])
        }
    };
    let Some(status) = &app.status else { return [first, Line::from("waiting for the first picture")] };
    let mut figures = vec![
        format!("waiting {}", count(status.gq)),
        format!("at nodes {}", count(status.dq)),
        format!("jobs {}", count(status.jq)),
        format!("resent {}", count(status.resent)),
        format!("speed {}", human::count(status.power_mean)),
    ];
    if status.datagrams_dropped > 0 {
        figures.push(format!("dropped {}", count(status.datagrams_dropped)));
    }
    if !app.alarms().is_empty() {
        figures.insert(0, format!("alarms {}", app.alarms().len()));
    }
    if !status.notes.is_empty() {
        figures.push(format!("notes {}", status.notes.len()));
    }
    figures.push(format!("granularity {}", human::seconds_if_known(status.granularity_seconds)));
    figures.push(format!("oldest {}", human::seconds(status.dq_oldest_seconds)));
    [first, fitting(&figures, usize::from(app.size.0)).into()]
}

/// The items that there is room for, the first ones first.
fn fitting(items: &[String], width: usize) -> String {
    let mut line = String::new();
    for item in items {
        let gap = if line.is_empty() { "" } else { "  " };
        if line.width() + gap.len() + item.width() <= width {
            line.push_str(gap);
            line.push_str(item);
        }
    }
    line
}

fn tables(app: &App, body: Rect, buffer: &mut Buffer) {
    let rows = Rows::of(app);
    let paint = Paint(app.color);
    let parts = [rows.alarms, FRAME + rows.jobs, FRAME + rows.nodes, 1 + rows.events].map(Constraint::Length);
    let [alarms, jobs, nodes, events] = Layout::vertical(parts).areas(body);
    put_all(self::alarms(app, usize::from(rows.alarms)), Align::Left, alarms, buffer);
    table("JOBS", &app.jobs, app.focus == Focus::Jobs, paint, jobs, buffer);
    table("NODES", &app.nodes, app.focus == Focus::Nodes, paint, nodes, buffer);
    event_lines(app, events, buffer);
}

/// Alarms that stand, a line each; the last line there is room for also says how many more there are.
fn alarms(app: &App, rows: usize) -> impl Iterator<Item = Line<'static>> {
    let (paint, more) = (Paint(app.color), app.alarms().len().saturating_sub(rows));
    app.alarms().iter().take(rows).enumerate().map(move |(at, alarm)| {
        let more = if at + 1 == rows && more > 0 { format!("(and {more} more) ") } else { String::new() };
        let level = Span::styled(format!("! {} ", alarm.level), paint.alarm(alarm.level));
        let since = human::seconds(alarm.since_seconds.floor());
        let (node, text) = (human::printable(&alarm.node), human::printable(&alarm.text));
        Line::from_iter([level, Span::raw(format!("{more}{node}, for {since}: {text}"))])
    })
}

/// A part's title: a line through the whole screen, marked where the keys go. What is left of the area is returned.
fn title(words: String, is_focused: bool, area: Rect, buffer: &mut Buffer) -> Rect {
    let (mark, style) = if is_focused { ("▶", Modifier::BOLD) } else { ("─", Modifier::empty()) };
    let words = Span::styled(format!("{mark} {words} "), style);
    let block = Block::new().borders(Borders::TOP).title(words);
    let body = block.inner(area);
    block.render(area, buffer);
    body
}

fn table<T: Row>(
    name: &str,
    list: &List<T>,
    is_focused: bool,
    paint: Paint,
    area: Rect,
    buffer: &mut Buffer,
) {
    let rows = usize::from(area.height.saturating_sub(FRAME));
    // What is selected stays in the middle as far as it can.
    let top = list.place().saturating_sub(rows / 2).min(list.rows().len().saturating_sub(rows));
    let body = title(heading(name, list, top, rows, area.width), is_focused, area, buffer);
    let items = &list.rows()[top..list.rows().len().min(top + rows)];
    let mut x = body.x;
    for (at, column, width) in placed(items, paint, body.width) {
        let (mark, modifier) =
            if at == list.sort { (sort_mark(list), Modifier::BOLD) } else { ("", Modifier::DIM) };
        let words = Line::from(Span::styled(format!("{}{mark}", column.title), modifier));
        let cells = items.iter().map(|item| (column.cell)(item, paint, width));
        let place = Rect { x, width, ..body }.intersection(body);
        put_all(std::iter::once(words).chain(cells), column.align, place, buffer);
        x = x.saturating_add(width + 1);
    }
    let mut places = body.rows().skip(1);
    let selected = places.nth(list.place() - top);
    match selected {
        Some(place) if items.is_empty() => Span::styled("none", Modifier::DIM).render(place, buffer),
        Some(place) if is_focused => buffer.set_style(place, Modifier::REVERSED),
        _ => {}
    }
}

fn sort_mark<T: Row>(list: &List<T>) -> &'static str {
    if list.reverse { "▴" } else { "▾" }
}

/// What a table holds, which of it is in sight where that is not all, its filter, and its order where no column in
/// sight has the mark.
fn heading<T: Row>(name: &str, list: &List<T>, top: usize, rows: usize, width: u16) -> String {
    let mut words = extent(name, (list.rows().len(), list.all().count()), top, rows, list.filter());
    let order = &T::ON_SCREEN[list.sort];
    if order.from > width {
        words.push_str(&format!("  by {}{}", order.title, sort_mark(list)));
    }
    words
}

/// How many there are, shown and in all, which of them are in sight where not all are, and the filter.
fn extent(name: &str, (shown, all): (usize, usize), top: usize, rows: usize, filter: &str) -> String {
    let mut words = if shown == all { format!("{name} {all}") } else { format!("{name} {shown} of {all}") };
    if shown > rows && rows > 0 {
        words.push_str(&format!("  {}-{}", top + 1, top + rows));
    }
    if !filter.is_empty() {
        words.push_str(&format!("  /{}", human::printable(filter)));
    }
    words
}

/// The columns of a screen so wide: index, column, width. A number is never cut while there is room: those that
/// stretch give way to it.
fn placed<T: Row>(items: &[T], paint: Paint, width: u16) -> Vec<(usize, &'static Column<T>, u16)> {
    let columns = T::ON_SCREEN.iter().enumerate().filter(|(_, column)| column.from <= width);
    let needed = |column: &Column<T>| match column.align {
        Align::Right => {
            let cells = items.iter().map(|item| (column.cell)(item, paint, column.width).width() as u16);
            cells.fold(column.width, u16::max)
        }
        _ => column.width,
    };
    let mut placed: Vec<_> = columns.map(|(at, column)| (at, column, needed(column))).collect();
    let taken = placed.iter().map(|(.., width)| i32::from(*width) + 1).sum::<i32>() - 1;
    let stretching = placed.iter().filter(|(_, column, _)| column.stretches).count().max(1) as i32;
    let spare = (i32::from(width) - taken).div_euclid(stretching);
    for (_, column, width) in &mut placed {
        if column.stretches {
            *width = u16::try_from(i32::from(*width) + spare).unwrap_or(0).max(1);
        }
    }
    placed
}

/// Draws lines below each other, as many as there is room for.
fn put_all(lines: impl IntoIterator<Item = Line<'static>>, align: Align, area: Rect, buffer: &mut Buffer) {
    for (line, row) in lines.into_iter().zip(area.rows()) {
        put(line, align, row, buffer);
    }
}

/// Draws a line; where it is longer than its place, `…` says so.
fn put(line: Line<'static>, align: Align, area: Rect, buffer: &mut Buffer) {
    let is_cut = line.width() > usize::from(area.width);
    let line = if align == Align::Right && !is_cut { line.right_aligned() } else { line };
    line.render(area, buffer);
    if is_cut && !area.is_empty() {
        let last = area.right() - 1;
        // A character of two columns would cover the mark with its second half.
        if last > area.x && buffer[(last - 1, area.y)].symbol().width() > 1 {
            buffer[(last - 1, area.y)].set_symbol(" ");
        }
        buffer[(last, area.y)].set_symbol("…");
    }
}

fn event_lines(app: &App, area: Rect, buffer: &mut Buffer) {
    let rows = usize::from(area.height.saturating_sub(1));
    let lines: Vec<&EventLine> = app.filtered_lines().collect();
    let end = lines.partition_point(|line| app.line_at.is_none_or(|last| line.number <= last));
    let top = end.saturating_sub(rows);
    let mut words = extent("EVENTS", (lines.len(), app.lines.len()), top, end - top, &app.line_filter);
    if app.line_at.is_some() {
        words.push_str("  older: End goes to the newest");
    }
    let body = title(words, app.focus == Focus::Events, area, buffer);
    let shown = lines[top..end].iter().map(|line| event_line(line, Paint(app.color)));
    put_all(shown, Align::Left, body, buffer);
}

/// Each line has the colour of the state that it tells of, where it tells of one.
fn event_line(line: &EventLine, paint: Paint) -> Line<'static> {
    let seconds = line.at_us / 1_000_000;
    let clock = format!("{:02}:{:02}:{:02}Z ", seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let style = match line.kind.as_str() {
        "node_lost" | "conflict" | "unit_failed" | "stalled" | "standstill" | "superseded" => {
            paint.word("lost")
        }
        "node_suspect" | "alarm" => paint.word("suspect"),
        "node_quarantined" => paint.word("quarantined"),
        "node_draining" => paint.word("draining"),
        "node_joined" | "node_back" | "node_resumed" | "hit" => paint.word("up"),
        _ => Style::new(),
    };
    Line::from_iter([Span::styled(clock, Modifier::DIM), Span::styled(human::printable(&line.text), style)])
}

/// The last line: a question, a filter that is being written, the keys; or a message, on as many as it needs. Above
/// the keys: why there is no answer, and what to do.
fn footer(app: &App, width: usize) -> Vec<Line<'static>> {
    let asks = |words: String| vec![Line::from(Span::styled(words, Modifier::BOLD))];
    match (&app.mode, &app.message) {
        (Mode::Confirm(pending), _) => asks(pending.question(width)),
        (Mode::Filter, _) => {
            asks(format!("/{}▏ Enter keeps it, Esc clears it", human::printable(app.filter())))
        }
        (_, Some(message)) => {
            let message = Span::styled(human::printable(message), Modifier::BOLD);
            detail::wrapped(message.into(), width)
        }
        _ => {
            let why = app.silence().and_then(|(_, why)| why).map(human::printable);
            let mut lines = why.map_or_else(Vec::new, |why| detail::wrapped(why.into(), width));
            lines.push(hints(app));
            lines
        }
    }
}

/// The keys that do something here; where there is no room for all, those that move about are left to the help.
fn hints(app: &App) -> Line<'static> {
    // What would be refused is not offered.
    let of_job: &[&str] = match app.job().and_then(pause_or_resume) {
        Some(JobCommand::Resume) => &["p resume", "c cancel"],
        Some(_) => &["p pause", "c cancel"],
        None => &[],
    };
    let of_node: &[&str] = match app.node().map(drain_or_resume) {
        Some(NodeCommand::Resume) => &["d resume"],
        Some(_) => &["d drain"],
        None => &[],
    };
    let steer = if app.read_only { vec!["(read-only)"] } else { [of_job, of_node].concat() };
    let scroll = scroll_hint(app);
    let (first, last): (&[&str], &[&str]) = match (&app.view, app.focus) {
        (View::Open(..) | View::Tree(_), _) => (&["Esc back", &scroll], &[]),
        (View::Tables, Focus::Events) => (&["/ filter"], &["Tab next", "↑↓ scroll", "t tree"]),
        (View::Tables, Focus::Jobs | Focus::Nodes) => {
            (&["/ filter", "s sort"], &["Tab next", "Enter open", "t tree"])
        }
    };
    let items = [&["? help", "q quit"], first, &steer, last].concat();
    let items: Vec<String> = items.into_iter().map(str::to_owned).collect();
    Span::styled(fitting(&items, usize::from(app.size.0)), Modifier::DIM).into()
}

/// How to see what is open further down, and how much of it there is.
fn scroll_hint(app: &App) -> String {
    let below = match &app.view {
        View::Open(_, top) | View::Tree(top) => detail::below(app, *top),
        View::Tables => 0,
    };
    if below > 0 { format!("↑↓ scroll, {below} more lines") } else { "↑↓ scroll".to_owned() }
}

fn help(app: &App, area: Rect, buffer: &mut Buffer) {
    let keys = KEYS.iter().filter(|(.., steers)| !(*steers && app.read_only));
    let mut lines: Vec<String> = keys.map(|(key, what, _)| format!(" {key:25}{what} ")).collect();
    if !app.read_only {
        lines.push(" y confirms p, c and d; Enter too, but not for c ".to_owned());
    }
    let [done, failed, out, pending, abandoned] = UNIT_SIGNS;
    lines.push(format!(
        " bar: {done} done {failed} failed {out} out {pending} pending {abandoned} abandoned "
    ));
    lines.push(" queue: tasks held / of them waiting there; times are UTC ".to_owned());
    let width = lines.iter().map(|line| line.width()).max().unwrap_or(0) as u16;
    let place = area.centered(Constraint::Length(width), Constraint::Length(lines.len() as u16));
    if usize::from(place.height) < lines.len() {
        lines.truncate(usize::from(place.height.saturating_sub(1)));
        lines.push(" … the rest has no room here ".to_owned());
    }
    Clear.render(place, buffer);
    put_all(lines.into_iter().map(Line::from), Align::Left, place, buffer);
    buffer.set_style(place, Modifier::REVERSED);
}
