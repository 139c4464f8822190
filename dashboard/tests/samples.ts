// Answers of the coordinator, for tests: complete, with the fields that a test is about given by it.

import type { AuditEntry, Broker, BrokerFigure, Channel, History, Live, Overall } from '../src/types'

export function broker(name: string, fields: Partial<Broker> = {}): Broker {
  return {
    name,
    state: 'active',
    url: `http://${name}:8700`,
    location: null,
    capacity: 1,
    connections: 0,
    subscribers: 0,
    in: 0,
    out: 0,
    model_in: 0,
    model_out: 0,
    cpu_cores: 0,
    silent_s: 0,
    p50_s: null,
    p95_s: null,
    p99_s: null,
    hit_rate: null,
    ...fields,
  }
}

const OVERALL: Overall = {
  cov: null,
  measured_cov: null,
  max: null,
  mean: null,
  rate: 0,
  subscribers: 0,
  p50_s: null,
  p95_s: null,
  p99_s: null,
  hit_rate: null,
}

export function liveAt(at_s: number, fields: Partial<Live> = {}): Live {
  return {
    at_s,
    overall: OVERALL,
    brokers: [],
    balancing: {
      automatic: false,
      every_s: 10,
      evacuate_after_s: 30,
      alpha: 0.15,
      beta: 0,
      gamma: 0.5,
      theta: 0,
      migration: 'group',
      shuffle: '',
      hits: 1,
      shuffle_hits: 1,
      settle_s: 30,
      rest_s: 60,
      idle_below: 0.1,
      max_moves: null,
      rule: 'worthwhile',
      least_worth: 3,
    },
    verdict: '',
    under_way: 0,
    chance_cov: 0,
    promise_kept: { plans: 0, promised_cov: null, kept_cov: null },
    moves_per_person_hour: 0,
    runs: [],
    placement: 'nearest',
    mass_outage: false,
    audited: 0,
    ...fields,
  }
}

/** A history in which each broker's subscribers are given, and every other figure is 0. */
export function historyOf(times_s: number[], subscribers: Record<string, number[]> = {}): History {
  const zeros = () => times_s.map(() => 0)
  const overall = Object.fromEntries(Object.keys(OVERALL).map((name) => [name, zeros()])) as History['overall']
  const brokers: History['brokers'] = {}
  for (const [name, values] of Object.entries(subscribers)) {
    const figures = {} as Record<BrokerFigure, number[]>
    for (const figure of ['in', 'out', 'model_in', 'model_out', 'connections'] as const) figures[figure] = zeros()
    brokers[name] = { ...figures, subscribers: values }
  }
  return { times_s, overall, brokers }
}

export function entry(number: number, fields: Partial<AuditEntry> = {}): AuditEntry {
  return { number, at_us: number * 1e6, who: 'ada', action: 'cordon', subject: 'broker-1', details: {}, ...fields }
}

export function move(number: number, plan: string, details: Record<string, unknown> = {}): AuditEntry {
  const way = { source: 'broker-1', destination: 'broker-2', step: 'done' }
  return entry(number, { action: 'move', subject: `user-${number}`, details: { ...way, plan, ...details } })
}

export function channel(fields: Partial<Channel> = {}): Channel {
  return {
    name: 'EmergenciesNear',
    kind: 'continuous',
    period_s: null,
    is_paused: false,
    subscriptions: 0,
    runs: 0,
    overruns: 0,
    last_run_s: 0,
    last_results: 0,
    last_error: '',
    window_lag_commits: 0,
    spark_s: 0,
    results: 0,
    result_bytes: 0,
    last_hour_spark_s: 0,
    last_hour_results: 0,
    last_hour_result_bytes: 0,
    parameters: [],
    filled: [],
    granted_to: null,
    ...fields,
  }
}
