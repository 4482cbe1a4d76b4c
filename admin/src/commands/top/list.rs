//! A table's rows: filtered, sorted, one of them selected. What is selected stays so while rows come, go and move.

use std::cmp::Ordering;

use super::columns::Row;
use crate::output::Record;

#[derive(Debug)]
pub(super) struct List<T: Row> {
    /// What is shown, in order.
    shown: Vec<T>,
    hidden: Vec<T>,
    filter: String,
    /// Index of the column that rows are sorted by.
    pub(super) sort: usize,
    pub(super) reverse: bool,
    selected: Option<String>,
    /// Where the selected row was, for when it is gone.
    place: usize,
}

impl<T: Row> Default for List<T> {
    fn default() -> Self {
        let (shown, hidden, filter) = (Vec::new(), Vec::new(), String::new());
        Self { shown, hidden, filter, sort: T::FIRST_ORDER, reverse: false, selected: None, place: 0 }
    }
}

impl<T: Row> List<T> {
    /// What there is now.
    pub(super) fn take(&mut self, items: Vec<T>) {
        (self.shown, self.hidden) = (items, Vec::new());
        self.arrange();
    }

    /// All rows, those that the filter hides too.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.shown.iter().chain(&self.hidden)
    }

    /// What is shown, in order.
    pub(super) fn rows(&self) -> &[T] {
        &self.shown
    }

    pub(super) fn selected(&self) -> Option<&T> {
        self.shown.get(self.place)
    }

    /// Its place among the rows.
    pub(super) fn place(&self) -> usize {
        self.place
    }

    pub(super) fn filter(&self) -> &str {
        &self.filter
    }

    pub(super) fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.arrange();
    }

    /// Sorts by the next column, of those that a screen so wide shows, that can be sorted by.
    pub(super) fn sort_by_next(&mut self, width: u16) {
        let count = T::ON_SCREEN.len();
        let sorts = |at: &usize| T::ON_SCREEN[*at].order.is_some() && T::ON_SCREEN[*at].from <= width;
        self.sort = (1..=count).map(|step| (self.sort + step) % count).find(sorts).unwrap_or(self.sort);
        self.arrange();
    }

    pub(super) fn reverse(&mut self) {
        self.reverse = !self.reverse;
        self.arrange();
    }

    /// Selects the row so many rows further on, or the last one there is.
    pub(super) fn move_by(&mut self, rows: isize) {
        let last = self.shown.len().saturating_sub(1);
        self.place = self.place.saturating_add_signed(rows).min(last);
        self.selected = self.selected().map(Record::quiet);
    }

    fn arrange(&mut self) {
        let wanted = self.filter.to_lowercase();
        let fits = |item: &T| wanted.is_empty() || item.words().to_lowercase().contains(&wanted);
        let (shown, hidden) = (std::mem::take(&mut self.shown), std::mem::take(&mut self.hidden));
        (self.shown, self.hidden) = shown.into_iter().chain(hidden).partition(fits);
        if let Some(order) = T::ON_SCREEN[self.sort].order {
            // Rows that are alike stand as the first column has them.
            let natural = T::ON_SCREEN[0].order.unwrap_or(|_, _| Ordering::Equal);
            self.shown.sort_by(|a, b| {
                let by_column = if self.reverse { order(b, a) } else { order(a, b) };
                by_column.then_with(|| natural(a, b))
            });
        }
        let same = |key: &String| self.shown.iter().position(|row| row.quiet() == *key);
        self.place = match self.selected.as_ref().and_then(same) {
            Some(place) => place,
            // Gone or filtered out: what took its place is as near as it gets.
            None => self.place.min(self.shown.len().saturating_sub(1)),
        };
        // While nothing fits the filter, what was selected is kept in mind.
        if let Some(row) = self.selected() {
            self.selected = Some(row.quiet());
        }
    }
}
