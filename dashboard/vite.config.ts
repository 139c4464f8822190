import { defineConfig } from 'vite'

// Relative addresses: the coordinator serves the page below /dashboard/. Nothing is put inline, since the page's
// Content-Security-Policy allows no inline scripts or styles.
export default defineConfig({
  base: './',
  publicDir: 'public',
  build: {
    outDir: '../src/tocsin/dashboard/static',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
    license: { fileName: 'licenses.md' },
  },
  server: { proxy: { '/v1': 'http://127.0.0.1:8500', '/dashboard/api': 'http://127.0.0.1:8500' } },
})
