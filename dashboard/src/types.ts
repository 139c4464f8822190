// The coordinator's answers. Times that end in _s are seconds, those in _us microseconds since 1970.

export type Role = 'operator' | 'viewer'

export interface Me {
  role: Role
  needs_token: boolean
  version: string
  has_cluster: boolean
  has_roads: boolean
}

export type BrokerState = 'active' | 'cordoned' | 'draining' | 'dead'
export type Point = [number, number]

export interface Times {
  p50_s: number | null
  p95_s: number | null
  p99_s: number | null
  hit_rate: number | null
}

export interface Broker extends Times {
  name: string
  state: BrokerState
  url: string
  location: Point | null
  capacity: number
  connections: number
  subscribers: number
  in: number
  out: number
  model_in: number
  model_out: number
  cpu_cores: number
  silent_s: number
}

export interface Overall extends Times {
  cov: number | null
  measured_cov: number | null
  max: number | null
  mean: number | null
  rate: number
  subscribers: number
}

export interface Run {
  plan: string
  state: string
  stage: string
  policy: string
  reason: string
  by: string
  moves: number
  done: number
  failed: number
  cancelled: number
}

export interface BalancingSettings {
  automatic: boolean
  every_s: number
  evacuate_after_s: number
  alpha: number
  beta: number
  gamma: number
  theta: number
  migration: string
  shuffle: string
  hits: number
  shuffle_hits: number
  settle_s: number
  rest_s: number
  idle_below: number
  max_moves: number | null
  rule: string
  least_worth: number
}

export interface PromiseKept {
  plans: number
  promised_cov: number | null
  kept_cov: number | null
}

export interface Live {
  at_s: number
  overall: Overall
  brokers: Broker[]
  balancing: BalancingSettings
  verdict: string
  under_way: number
  chance_cov: number
  promise_kept: PromiseKept
  moves_per_person_hour: number
  runs: Run[]
  placement: string
  mass_outage: boolean
  audited: number
}

export type Series = (number | null)[]
export type OverallName = keyof Overall
export type BrokerFigure = 'in' | 'out' | 'model_in' | 'model_out' | 'connections' | 'subscribers'

export interface History {
  times_s: number[]
  overall: Record<OverallName, Series>
  brokers: Record<string, Record<BrokerFigure, Series>>
}

export interface Balance {
  cov: number
  max: number
  mean: number
  total: number
}

export interface Execution extends Run {
  begun_at_us: number
  changed_at_us: number
  expected: { before?: Balance; after?: Balance; lower_bound?: number }
  promised_cov: number | null
  kept_cov: number | null
}

export interface Step {
  subscriber: string
  source: string
  destination: string
  load: number
  reason: string
  step: string
  outcome: string
}

export interface Plan {
  plan: string
  stage: string
  policy: string
  reason: string
  move_count: number
  before: Balance
  after: Balance
  lower_bound: number
  gap: number
  brokers: { broker: string; before: number; after: number; score_before: number; score_after: number }[]
  moves: { subscriber: string; source: string; destination: string; load: number; reason: string }[]
}

export interface Policies {
  placement: string[]
  migration: string[]
  shuffle: string[]
}

export interface AuditEntry {
  number: number
  at_us: number
  who: string
  action: string
  subject: string
  details: Record<string, unknown>
}

export interface Parameter {
  name: string
  type: string
}

export interface Channel {
  name: string
  kind: string
  period_s: number | null
  is_paused: boolean
  subscriptions: number
  runs: number
  overruns: number
  last_run_s: number
  last_results: number
  last_error: string
  window_lag_commits: number
  /** The cost since the cluster began, and that of the last hour. */
  spark_s: number
  results: number
  result_bytes: number
  last_hour_spark_s: number
  last_hour_results: number
  last_hour_result_bytes: number
  parameters: Parameter[]
  /** Parameters that brokers fill in for the connected user. */
  filled: { name: string; filled_by: string }[]
  /** Permission classes that may subscribe; null if all may. */
  granted_to: string[] | null
}

export interface Feed {
  name: string
  dataset: string
  source: string
  accepted: number
  rejected: number
  accepted_per_s: number
  rejected_per_s: number
  /** The publishers that it is granted to, beside operators. */
  publishers: string[]
}

export interface Cluster {
  trouble: string
  state: string
  pending_bytes: number
  channels: Channel[]
  feeds: Feed[]
  datasets: { name: string; kind: string; on_map: boolean }[]
}

export interface DeadLetters {
  total: number
  dead_letters: DeadLetter[]
  /** Where the next page begins; empty on the last. */
  next: string
}

export interface DeadLetter {
  id: string
  position: number
  feed: string
  raw: string
  reason: string
  rejected_at: string
}

export interface Locations {
  version: number
  brokers: string[]
  points: number[]
  names?: string[]
}

export interface Roads {
  bounds: [number, number, number, number]
  lines: number[][]
}

export interface MapEvents {
  dataset: string
  commit: number
  rows: [number, number, string, string][]
}
