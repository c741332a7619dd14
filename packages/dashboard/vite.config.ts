import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

/** The server that `npm run dev` shows. */
const server = process.env.CODER_URL ?? 'http://127.0.0.1:3000';
/** Everything that is not a page comes from that server. Its WebSockets check the origin, which must be its own. */
const proxied = [
  '^/api/',
  '^/healthz',
  '^/readyz',
  '^/bin/',
  '^/install\\.sh',
  '^/icon/',
  '^/emojis/',
  '^/@[^/]+/[^/]+/apps/',
];

export default defineConfig({
  root: import.meta.dirname,
  plugins: [react(), tailwindcss()],
  build: {
    target: 'es2023',
    // inlined files would need data: in the Content-Security-Policy
    assetsInlineLimit: 0,
    // an inline script would break the Content-Security-Policy
    modulePreload: { polyfill: false },
    emptyOutDir: true,
    // the editor and the charts load with their pages only
    chunkSizeWarningLimit: 1_000,
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        // pages share icons: a file for each of them costs more in requests than the icons themselves
        codeSplitting: {
          groups: [{ name: 'icons', test: /[\\/]lucide-react[\\/].*[\\/]icons[\\/]/, minShareCount: 2 }],
        },
      },
    },
  },
  server: {
    strictPort: true,
    proxy: Object.fromEntries(
      proxied.map((path) => [path, { target: server, ws: true, changeOrigin: true, headers: { origin: server } }]),
    ),
  },
});
