// Reverse-words stands in for the application that the reverse-words tutorial installs, on the node of `make e2e-node`: it answers
// POST {"word":"PALC"} with {"reverse_word":"CLAP"}, and GET /health.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"slices"
)

func reverse(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Word string `json:"word"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	letters := []rune(asked.Word)
	slices.Reverse(letters)
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(map[string]string{"reverse_word": string(letters)}); err != nil {
		log.Print(err)
	}
}

func main() {
	http.HandleFunc("POST /{$}", reverse)
	http.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("Healthy\n")) })
	log.Fatal(http.ListenAndServe(":8080", nil))
}
