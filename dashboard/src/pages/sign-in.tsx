import { useState } from 'preact/hooks'
import { signIn, signInWhy } from '../store'
import { Refusal } from '../ui/bits'
import { Bell } from '../ui/icons'

export function SignIn() {
  const [token, setToken] = useState('')
  const [name, setName] = useState(sessionStorage.getItem('tocsin.name') ?? '')
  const [busy, setBusy] = useState(false)
  const submit = async (event: Event) => {
    event.preventDefault()
    setBusy(true)
    await signIn(token, name)
    setBusy(false)
  }
  return (
    <main class="sign-in">
      <form class="panel" onSubmit={submit}>
        <h1>
          <Bell /> Tocsin
        </h1>
        <p>Sign in with the coordinator's API token, or with the viewer's token for read-only access.</p>
        <label>
          Token
          <input
            type="password"
            name="token"
            autocomplete="current-password"
            required
            autofocus
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        <label>
          Your name <small>for the audit log</small>
          <input
            name="name"
            autocomplete="username"
            maxLength={64}
            placeholder="dashboard"
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <Refusal why={signInWhy.value} />
        <button type="submit" class="primary" disabled={busy}>
          Sign in
        </button>
      </form>
    </main>
  )
}
