import { createHash } from 'node:crypto'
import { appendFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vite'

const BUILT = '../src/tocsin/dashboard/static'
const SOURCES = ['index.html', 'package-lock.json', 'package.json', 'public', 'src', 'tsconfig.json', 'vite.config.ts']

/** What the page was built from, so that a test can tell whether it was built since it was changed. */
function hashOfSources(): string {
  const hash = createHash('sha256')
  const files = SOURCES.flatMap((name) => {
    if (name.includes('.')) return [name]
    return readdirSync(name, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
  })
  for (const file of files.sort()) hash.update(`${file}\n`).update(readFileSync(file)).update('\n')
  return hash.digest('hex')
}

// Relative addresses: the coordinator serves the page below /dashboard/. Nothing is put inline, since the page's
// Content-Security-Policy allows no inline scripts or styles.
export default defineConfig({
  base: './',
  build: {
    outDir: BUILT,
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
    chunkSizeWarningLimit: 700,
    license: { fileName: 'licenses.md' },
  },
  plugins: [
    {
      name: 'sources-and-notices',
      closeBundle() {
        writeFileSync(join(BUILT, 'sources.sha256'), `${hashOfSources()}\n`)
        // The Apache licence wants notices passed on.
        appendFileSync(join(BUILT, 'licenses.md'), `\n## Notices\n\n${readFileSync('node_modules/echarts/NOTICE', 'utf8')}`)
      },
    },
  ],
  server: { proxy: { '/v1': 'http://127.0.0.1:8500', '/dashboard/api': 'http://127.0.0.1:8500' } },
})
