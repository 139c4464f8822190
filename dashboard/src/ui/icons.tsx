// Line icons, 24 × 24, drawn here so that nothing is fetched.

const PATHS: Record<string, string> = {
  overview: 'M3 20h18M6 16l4-6 4 3 5-8',
  map: 'M9 4 3 6v14l6-2 6 2 6-2V4l-6 2-6-2zM9 4v14M15 6v14',
  brokers: 'M4 5h16v5H4zM4 14h16v5H4zM8 7.5h.01M8 16.5h.01',
  channels: 'M4 7h10M4 12h16M4 17h7M17 7h3M14 17h6',
  balancing: 'M12 4v16M8 20h8M5 7h14M5 7l-3 7h6zM19 7l-3 7h6z',
  audit: 'M6 3h9l4 4v14H6zM9 11h7M9 15h7M9 7h3',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.400 1.400M17.600 17.600 19 19M5 19l1.400-1.400M17.600 6.400 19 5',
  moon: 'M20 14.500A8.500 8.500 0 0 1 9.500 4 8.500 8.500 0 1 0 20 14.500z',
  auto: 'M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18',
}

export function Icon({ name }: { name: string }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name] ?? ''} />
    </svg>
  )
}

export function Bell() {
  return (
    <svg class="bell" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <path d="M16 3a2.200 2.200 0 0 0-2.200 2.200v.6c-3.900 1-6.400 4.400-6.400 8.700 0 5-1.600 7-3.100 8.400-.7.700-.3 2.100.8 2.100h21.800c1.100 0 1.500-1.400.8-2.100-1.500-1.400-3.100-3.400-3.100-8.400 0-4.300-2.500-7.700-6.400-8.700v-.6A2.200 2.200 0 0 0 16 3z" />
      <path d="M12.300 26.500a3.900 3.900 0 0 0 7.400 0z" />
    </svg>
  )
}
