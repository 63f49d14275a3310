// Pages by the pages router; the report and the redirect are interface routes under plain names.
module.exports = {
  rewrites: async () => [
    { source: '/files/report.txt', destination: '/api/report' },
    { source: '/go', destination: '/api/go' },
    { source: '/logout', destination: '/api/logout' },
  ],
  headers: async () => [
    { source: '/static/:path*', headers: [{ key: 'Cache-Control', value: 'public, max-age=3600' }] },
  ],
};
