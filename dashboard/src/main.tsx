import { render } from 'preact'
import { App } from './app'
import { enter, keepUp } from './store'
import './styles.css'

const root = document.getElementById('app')
if (root) render(<App />, root)
void enter()
keepUp()
