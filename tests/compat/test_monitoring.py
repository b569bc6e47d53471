"""Events and their listeners."""

from tfn.compat import monitoring


def test_listeners_are_called():
    seen = []
    monitoring.register_event_listener(lambda event, **facts: seen.append((event, facts)))
    monitoring.register_event_duration_secs_listener(lambda *row, **facts: seen.append(row))
    monitoring.register_event_time_span_listener(lambda *row, **facts: seen.append(row))
    monitoring.register_scalar_listener(lambda *row, **facts: seen.append(row))

    def record():
        monitoring.record_event("a", step=1)
        monitoring.record_event_duration_secs("b", 2.0)
        monitoring.record_event_time_span("c", 1.0, 2.0)
        monitoring.record_scalar("d", 3.0)

    record()
    assert seen == [("a", {"step": 1}), ("b", 2.0), ("c", 1.0, 2.0), ("d", 3.0)]
    monitoring.clear_event_listeners()
    record()
    assert len(seen) == 4


def test_listeners_can_be_taken_away():
    seen = []
    monitoring.register_scalar_listener(seen.append)
    monitoring.unregister_scalar_listener(seen.append)
    monitoring.record_scalar("d", 3.0)
    assert seen == []
