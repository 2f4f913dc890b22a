use till::{total, Line};

#[test]
fn an_empty_basket_costs_nothing() {
    assert_eq!(total(&[]), 0);
}

#[test]
fn lines_are_multiplied_and_added() {
    assert_eq!(total(&[Line::new("bread", 320, 1), Line::new("roll", 45, 4)]), 500);
}
