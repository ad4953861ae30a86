import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// Names without hashes: the server forbids caching, and the build is committed.
export default defineConfig({
  plugins: [react()],
  // The page may be served under a prefix, so all script addresses are relative.
  experimental: {
    renderBuiltUrl: (file, { hostType }) => (hostType === "html" ? `static/${file}` : { relative: true }),
  },
  build: {
    outDir: "../src/interlock/server/static",
    emptyOutDir: true,
    modulePreload: false,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1000,
    rollupOptions: {
      output: { entryFileNames: "app.js", chunkFileNames: "[name].js", assetFileNames: "[name][extname]" },
    },
  },
});
