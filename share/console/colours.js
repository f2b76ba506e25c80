// SPDX-License-Identifier: Apache-2.0
// Light or dark: as the system has it, or as the reader chooses, which the browser keeps.

const place = "llmserve colours";
const MEDIA = { system: "(prefers-color-scheme: dark)", dark: "all", light: "not all" };
const NAMES = Object.keys(MEDIA);

// A browser that keeps nothing for pages has the system's colours at each start.
function kept() {
  try {
    return localStorage.getItem(place) ?? "system";
  } catch {
    return "system";
  }
}

function keep(name) {
  try {
    if (name === "system") localStorage.removeItem(place);
    else localStorage.setItem(place, name);
  } catch {
    // for this page alone
  }
}

// Makes the button switch between the three. Pictures are drawn again after "colours".
export function switchBy(button) {
  const sheet = document.getElementById("dark");
  let name = kept() in MEDIA ? kept() : "system";
  const set = () => {
    sheet.media = MEDIA[name];
    button.textContent = `\u25d0 ${name}`;
    button.setAttribute("aria-label", `Colours: ${name}`);
    window.dispatchEvent(new Event("colours"));
  };
  button.addEventListener("click", () => {
    name = NAMES[(NAMES.indexOf(name) + 1) % NAMES.length];
    keep(name);
    set();
  });
  window.matchMedia(MEDIA.system).addEventListener("change", () => window.dispatchEvent(new Event("colours")));
  set();
}
