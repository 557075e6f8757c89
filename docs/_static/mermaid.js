// SPDX-License-Identifier: Apache-2.0
// Draws the diagrams of a page that has some; without a network their text stays, which reads well.
if (document.querySelector("pre.mermaid")) {
  import("https://cdn.jsdelivr.net/npm/mermaid@11/dist/mermaid.esm.min.mjs")
    .then(({ default: mermaid }) => {
      const dark = matchMedia("(prefers-color-scheme: dark)").matches;
      mermaid.initialize({ startOnLoad: false, theme: dark ? "dark" : "neutral" });
      return mermaid.run();
    })
    .catch(() => {});
}
