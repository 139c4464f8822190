import { defineConfig } from 'vitest/config'

// Not a part of vite.config.ts: its plugin writes into the built page whenever a server ends, and tests start one.
export default defineConfig({
  test: {
    include: ['tests/**/*.test.ts'],
    unstubGlobals: true,
    restoreMocks: true,
  },
})
