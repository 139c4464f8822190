// The frame around all pages: navigation, the network's state, colours and signing out.

import { useEffect } from 'preact/hooks'
import { count, plural, ratio } from './format'
import { AuditPage } from './pages/audit'
import { BalancingPage } from './pages/balancing'
import { BrokersPage } from './pages/brokers'
import { ChannelsPage } from './pages/channels'
import { MapPage } from './pages/map'
import { OverviewPage } from './pages/overview'
import { SignIn } from './pages/sign-in'
import { link, route } from './router'
import { hasMap, isOperator, live, me, signInWhy, signOut, trouble } from './store'
import { type Choice, choice, choose, isDark } from './theme'
import type { Live } from './types'
import { Badge, Progress } from './ui/bits'
import { ConfirmDialog } from './ui/confirm'
import { Bell, Icon } from './ui/icons'
import { Toasts } from './ui/toast'
import { covTone, covWords } from './ui/tones'

const PAGES = {
  overview: { title: 'Overview', page: OverviewPage },
  map: { title: 'Map', page: MapPage },
  brokers: { title: 'Brokers', page: BrokersPage },
  channels: { title: 'Channels', page: ChannelsPage },
  balancing: { title: 'Balancing', page: BalancingPage },
  audit: { title: 'Audit', page: AuditPage },
} as const
type PageName = keyof typeof PAGES

const NEXT: Record<Choice, Choice> = { auto: 'light', light: 'dark', dark: 'auto' }
const THEME_ICONS: Record<Choice, string> = { auto: 'auto', light: 'sun', dark: 'moon' }

export function App() {
  useEffect(() => {
    document.documentElement.dataset.theme = isDark.value ? 'dark' : 'light'
  }, [isDark.value])
  if (signInWhy.value !== null) return <SignIn />
  if (!me.value) return <main class="waiting">{trouble.value || 'Connecting …'}</main>
  const asked = route.value[0] ?? 'overview'
  const name: PageName = asked in PAGES ? (asked as PageName) : 'overview'
  const shown = (Object.keys(PAGES) as PageName[]).filter((one) => one !== 'map' || hasMap.value)
  const { page: Page, title } = PAGES[name]
  return (
    <>
      <a class="skip" href="#content" onClick={skip}>
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href={link('overview')}>
          <Bell /> <span>Tocsin</span>
        </a>
        <nav aria-label="Pages">
          {shown.map((one) => (
            <a key={one} href={link(one)} aria-current={one === name ? 'page' : undefined}>
              <Icon name={one} />
              <span>{PAGES[one].title}</span>
            </a>
          ))}
        </nav>
        <div class="state" role="status" aria-label="State of the network">
          {live.value && <State seen={live.value} />}
        </div>
        <div class="who">
          {!isOperator.value && <Badge tone="plain">read-only</Badge>}
          <button
            type="button"
            class="quiet"
            title={`Colours: ${choice.value}`}
            aria-label={`Colours: ${choice.value}; change to ${NEXT[choice.value]}`}
            onClick={() => choose(NEXT[choice.value])}
          >
            <Icon name={THEME_ICONS[choice.value]} />
          </button>
          {me.value.needs_token && (
            <button type="button" class="quiet" onClick={() => signOut()}>
              Sign out
            </button>
          )}
        </div>
      </header>
      {trouble.value && (
        <p class="trouble" role="alert">
          {trouble.value} This page is not up to date.
        </p>
      )}
      <main id="content" tabIndex={-1}>
        <h1 class="hidden">{title}</h1>
        <Page />
      </main>
      <ConfirmDialog />
      <Toasts />
    </>
  )
}

function skip(event: Event): void {
  event.preventDefault()
  document.getElementById('content')?.focus()
}

function State({ seen }: { seen: Live }) {
  const { cov } = seen.overall
  const { alpha, gamma } = seen.balancing
  const of = (state: string) => seen.brokers.filter((one) => one.state === state).length
  const run = seen.runs[0]
  return (
    <>
      {run && (
        <a class="running" href={link('balancing')}>
          {run.stage} {count(run.done)}/{count(run.moves)}
          <Progress value={run.done + run.failed + run.cancelled} of={run.moves} label={`${run.stage} under way`} />
        </a>
      )}
      {seen.mass_outage && <Badge tone="bad">mass outage</Badge>}
      {cov !== null && (
        <Badge tone={covTone(cov, alpha, gamma)}>
          cov {ratio(cov, 2)} {covWords(cov, alpha, gamma)}
        </Badge>
      )}
      <Badge tone={of('active') ? 'good' : 'warn'}>{plural(of('active'), 'broker')} active</Badge>
      {of('cordoned') > 0 && <Badge tone="warn">{of('cordoned')} cordoned</Badge>}
      {of('draining') > 0 && <Badge tone="busy">{of('draining')} draining</Badge>}
      {of('dead') > 0 && <Badge tone="bad">{of('dead')} dead</Badge>}
    </>
  )
}

